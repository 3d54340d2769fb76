//! From values to instructions: pruning, joining, ordering, slots.

use super::build::{Node, PendingCall};
use super::{Call, Instruction, Operand, Tape};
use crate::operation::Opcode;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};

const NONE: u32 = u32::MAX;

/// How many tapes this process has made.
static N_TAPES: AtomicU64 = AtomicU64::new(0);

/// A number that no other tape has. It is never 0, which memory of no tape has.
pub(super) fn next_identity() -> u64 {
    N_TAPES.fetch_add(1, Ordering::Relaxed) + 1
}

/// The values that outputs need, after joining.
struct Program<'a> {
    n_inputs: usize,
    nodes: Vec<Node>,
    is_live: Vec<bool>,
    /// The other of sine and cosine of the same angle.
    partner: FxHashMap<u32, u32>,
    calls: &'a [PendingCall],
    outputs: &'a [u32],
}

/// A place in a walk over the program.
enum Visit {
    Enter(u32),
    Leave(u32),
}

impl Visit {
    const fn node(&self) -> u32 {
        match *self {
            Self::Enter(node) | Self::Leave(node) => node,
        }
    }
}

/// Instructions with slots, constants still as numbered by the builder.
struct Allocation {
    instructions: Vec<Instruction>,
    calls: Vec<Call>,
    n_slots: usize,
}

pub(super) fn assemble(
    n_inputs: usize,
    contract: bool,
    nodes: Vec<Node>,
    constants: &[f64],
    calls: Vec<PendingCall>,
    outputs: &[u32],
) -> Tape {
    let mut program = Program {
        n_inputs,
        is_live: vec![false; nodes.len()],
        nodes,
        partner: FxHashMap::default(),
        calls: &calls,
        outputs,
    };
    program.mark_live();
    program.join_products(contract);
    program.pair_sines();
    // Neither order is best for all programs; slots decide, as they decide what stays in cache.
    let as_built = program.allocate(&program.order_as_built());
    let depth_first = program.allocate(&program.order_depth_first());
    let Allocation { mut instructions, mut calls, n_slots } =
        if depth_first.n_slots < as_built.n_slots { depth_first } else { as_built };
    let mut pool = ConstantPool { old: constants, new: Vec::new(), numbers: FxHashMap::default() };
    for instruction in &mut instructions {
        for operand in [&mut instruction.a, &mut instruction.b, &mut instruction.c] {
            *operand = pool.renumber(*operand);
        }
    }
    for call in &mut calls {
        call.map_arguments(|operand| pool.renumber(operand));
    }
    Tape {
        identity: next_identity(),
        instructions,
        constants: pool.new,
        calls,
        n_inputs,
        n_outputs: outputs.len(),
        n_slots,
    }
}

/// Keeps the constants that are used.
struct ConstantPool<'a> {
    old: &'a [f64],
    new: Vec<f64>,
    numbers: FxHashMap<u32, u32>,
}

impl ConstantPool<'_> {
    fn renumber(&mut self, operand: Operand) -> Operand {
        if operand.raw() & Operand::CONSTANT == 0 {
            return operand;
        }
        let old = operand.raw() & !Operand::CONSTANT;
        let new = *self.numbers.entry(old).or_insert_with(|| {
            self.new.push(self.old[old as usize]);
            self.new.len() as u32 - 1
        });
        Operand::constant(new)
    }
}

impl Program<'_> {
    /// What must be computed before a node.
    fn arguments(&self, node: u32) -> &[u32] {
        match &self.nodes[node as usize] {
            Node::Input(_) | Node::Constant(_) => &[],
            Node::Operation { opcode, arguments } => &arguments[..opcode.n_operands()],
            Node::Call(call) => &self.calls[*call as usize].arguments,
            Node::Result { call, .. } => std::slice::from_ref(&self.calls[*call as usize].node),
        }
    }

    fn mark_live(&mut self) {
        let mut is_live = std::mem::take(&mut self.is_live);
        for &output in self.outputs {
            is_live[output as usize] = true;
        }
        for node in (0..self.nodes.len()).rev() {
            if is_live[node] {
                for &argument in self.arguments(node as u32) {
                    is_live[argument as usize] = true;
                }
            }
        }
        self.is_live = is_live;
    }

    /// Joins a product with the only sum or difference that uses it.
    fn join_products(&mut self, contract: bool) {
        let mut n_uses = vec![0u32; self.nodes.len()];
        for node in 0..self.nodes.len() {
            if self.is_live[node] {
                for &argument in self.arguments(node as u32) {
                    n_uses[argument as usize] += 1;
                }
            }
        }
        for &output in self.outputs {
            n_uses[output as usize] += 1;
        }
        let [add, sub, sub_product] = if contract {
            [Opcode::FusedMulAdd, Opcode::FusedMulSub, Opcode::FusedSubProduct]
        } else {
            [Opcode::MulThenAdd, Opcode::MulThenSub, Opcode::SubProduct]
        };
        for node in 0..self.nodes.len() {
            let Node::Operation { opcode, arguments: [a, b, _] } = self.nodes[node] else { continue };
            if !self.is_live[node] || !matches!(opcode, Opcode::Add | Opcode::Sub) {
                continue;
            }
            let product = |value: u32| match self.nodes[value as usize] {
                Node::Operation { opcode: Opcode::Mul, arguments: [x, y, _] } if n_uses[value as usize] == 1 => {
                    Some([x, y])
                }
                _ => None,
            };
            let (opcode, factors, other, joined) = match (product(a), product(b), opcode) {
                (Some(factors), _, Opcode::Add) => (add, factors, b, a),
                (None, Some(factors), Opcode::Add) => (add, factors, a, b),
                (Some(factors), _, _) => (sub, factors, b, a),
                (None, Some(factors), _) => (sub_product, factors, a, b),
                (None, None, _) => continue,
            };
            self.nodes[node] = Node::Operation { opcode, arguments: [factors[0], factors[1], other] };
            self.is_live[joined as usize] = false;
        }
    }

    fn pair_sines(&mut self) {
        let mut first: FxHashMap<(bool, u32), u32> = FxHashMap::default();
        for (node, content) in self.nodes.iter().enumerate() {
            let &Node::Operation { opcode, arguments: [angle, ..] } = content else { continue };
            if self.is_live[node] && matches!(opcode, Opcode::Sin | Opcode::Cos) {
                let is_sine = opcode == Opcode::Sin;
                first.insert((is_sine, angle), node as u32);
                if let Some(&other) = first.get(&(!is_sine, angle)) {
                    self.partner.insert(node as u32, other);
                    self.partner.insert(other, node as u32);
                }
            }
        }
    }

    fn is_step(&self, node: u32) -> bool {
        matches!(self.nodes[node as usize], Node::Operation { .. } | Node::Call(_))
    }

    /// Live operations and calls as they were built; of a pair of sine and cosine the earlier.
    fn order_as_built(&self) -> Vec<u32> {
        (0..self.nodes.len() as u32)
            .filter(|&node| {
                self.is_live[node as usize]
                    && self.is_step(node)
                    && self.partner.get(&node).is_none_or(|&partner| node < partner)
            })
            .collect()
    }

    /// How many slots a value needs if nothing is shared: its greediest argument first [@sethi1970].
    fn needs(&self) -> Vec<u32> {
        let mut needs = vec![0u32; self.nodes.len()];
        let mut of_arguments: Vec<u32> = Vec::new();
        for node in 0..self.nodes.len() {
            if self.is_live[node] {
                of_arguments.clear();
                of_arguments.extend(self.arguments(node as u32).iter().map(|&argument| needs[argument as usize]));
                of_arguments.sort_unstable_by(|a, b| b.cmp(a));
                let most = of_arguments.iter().zip(0..).filter(|&(&need, _)| need > 0).map(|(&need, k)| need + k).max();
                let is_stored = !matches!(self.nodes[node], Node::Input(_) | Node::Constant(_));
                needs[node] = most.unwrap_or(0).max(u32::from(is_stored));
            }
        }
        needs
    }

    /// Live operations and calls, arguments right before their first use, the greediest first.
    fn order_depth_first(&self) -> Vec<u32> {
        let needs = self.needs();
        let mut order = Vec::new();
        let mut is_visited = vec![false; self.nodes.len()];
        let mut stack: Vec<Visit> = Vec::new();
        for &output in self.outputs {
            stack.push(Visit::Enter(output));
            while let Some(visit) = stack.pop() {
                match visit {
                    Visit::Enter(node) if is_visited[node as usize] => {}
                    Visit::Enter(node) => {
                        is_visited[node as usize] = true;
                        stack.push(Visit::Leave(node));
                        let start = stack.len();
                        stack.extend(self.arguments(node).iter().map(|&argument| Visit::Enter(argument)));
                        // The last pushed is the first visited.
                        stack[start..].sort_by_key(|visit| needs[visit.node() as usize]);
                    }
                    Visit::Leave(node) => {
                        if self.is_step(node) {
                            order.push(node);
                        }
                        if let Some(&partner) = self.partner.get(&node) {
                            is_visited[partner as usize] = true;
                        }
                    }
                }
            }
        }
        order
    }

    /// Gives slots to values: outputs their own, temporaries the slot freed last.
    fn allocate(&self, order: &[u32]) -> Allocation {
        let n_pinned = self.n_inputs + self.outputs.len();
        let mut last_use = vec![NONE; self.nodes.len()];
        for (position, &node) in order.iter().enumerate() {
            for &argument in self.arguments(node) {
                last_use[argument as usize] = position as u32;
            }
        }
        let mut slots = Slots { of_node: vec![NONE; self.nodes.len()], free: Vec::new(), n_slots: n_pinned as u32 };
        for (position, &output) in self.outputs.iter().enumerate() {
            let slot = &mut slots.of_node[output as usize];
            if *slot == NONE && !matches!(self.nodes[output as usize], Node::Input(_) | Node::Constant(_)) {
                *slot = (self.n_inputs + position) as u32;
            }
        }
        let mut instructions = Vec::with_capacity(order.len() + self.outputs.len());
        let mut calls = Vec::new();
        for (position, &node) in order.iter().enumerate() {
            let operands: Vec<Operand>;
            let mut three = [Operand::NONE; 3];
            let arguments = self.arguments(node);
            let is_call = matches!(self.nodes[node as usize], Node::Call(_));
            if is_call {
                operands = arguments.iter().map(|&argument| self.operand(argument, &slots)).collect();
            } else {
                operands = Vec::new();
                for (operand, &argument) in three.iter_mut().zip(arguments) {
                    *operand = self.operand(argument, &slots);
                }
            }
            for &argument in arguments {
                if last_use[argument as usize] == position as u32 {
                    last_use[argument as usize] = NONE;
                    let slot = slots.of_node[argument as usize];
                    if slot != NONE && slot >= n_pinned as u32 {
                        slots.free.push(slot);
                    }
                }
            }
            let [a, b, c] = three;
            match self.nodes[node as usize] {
                Node::Call(call) => {
                    let call = &self.calls[call as usize];
                    let targets =
                        call.results.iter().map(|&r| self.is_live[r as usize].then(|| slots.place(r))).collect();
                    let a = Operand::slot(calls.len() as u32);
                    calls.push(Call::new(call.function.clone(), operands, targets));
                    instructions.push(Instruction { opcode: Opcode::Call, target: 0, a, b, c });
                }
                Node::Operation { opcode, .. } => {
                    let target = slots.place(node);
                    let Some(&partner) = self.partner.get(&node) else {
                        instructions.push(Instruction { opcode, target, a, b, c });
                        continue;
                    };
                    let other = slots.place(partner);
                    let [target, other] = if opcode == Opcode::Sin { [target, other] } else { [other, target] };
                    instructions.push(Instruction { opcode: Opcode::SinCos, target, a, b: Operand::slot(other), c });
                }
                Node::Input(_) | Node::Constant(_) | Node::Result { .. } => {}
            }
        }
        for (position, &output) in self.outputs.iter().enumerate() {
            let target = (self.n_inputs + position) as u32;
            let a = self.operand(output, &slots);
            if a != Operand::slot(target) {
                instructions.push(Instruction { opcode: Opcode::Copy, target, a, b: Operand::NONE, c: Operand::NONE });
            }
        }
        Allocation { instructions, calls, n_slots: slots.n_slots as usize }
    }

    fn operand(&self, node: u32, slots: &Slots) -> Operand {
        match self.nodes[node as usize] {
            Node::Input(input) => Operand::slot(input),
            Node::Constant(constant) => Operand::constant(constant),
            _ => Operand::slot(slots.of_node[node as usize]),
        }
    }
}

struct Slots {
    of_node: Vec<u32>,
    free: Vec<u32>,
    n_slots: u32,
}

impl Slots {
    /// The slot of a value that is computed now.
    fn place(&mut self, node: u32) -> u32 {
        if self.of_node[node as usize] == NONE {
            self.of_node[node as usize] = self.free.pop().unwrap_or_else(|| {
                self.n_slots += 1;
                self.n_slots - 1
            });
        }
        self.of_node[node as usize]
    }
}
