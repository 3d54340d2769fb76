//! What flattening one model may use up: work and memory, each with a limit that is checked before more is taken.
//!
//! A unit of work is one expression looked at, one statement run, one element of an array made, one element of a class
//! inherited; a pass of a loop, a call and a component count for more, as they take longer. So every way to make the flattener
//! run for long (loops in loops, functions that call themselves, arrays of arrays, classes that hold each other) ends
//! at the same limit, whatever it consists of. A large model may take more: each scalar variable that has been made
//! adds to what is allowed, and their number is limited by the memory that they take. Memory is estimated from what has been made; the texts and names in it
//! are counted as they are made.

use daesy_graph::Span;

use super::class::Class;
use super::instance::{Complex, Node, Prim};
use super::modifier::ModNode;
use super::value::count;
use super::{Flattener, Refused, Res};

/// Bytes of one node of the expression graph, with its place in the index of all nodes.
const GRAPH_NODE: usize = 32;

/// Units of work of a pass of a loop, beside what is in it.
pub(crate) const PASS: usize = 10;

/// Units of work of a component, beside its elements and expressions.
pub(crate) const COMPONENT: usize = 60;

/// Components inside components of the same class: a class that holds itself twice doubles their number at every depth.
pub(crate) const MAX_WITHIN_THEMSELVES: usize = 100_000;

/// Units of work of a call of a function, beside its statements and arguments.
pub(crate) const CALL: usize = 20;

/// Units of work that each scalar variable allows beyond [`super::FlattenOptions::max_work`]: an equation of a component
/// takes about 125 of them.
const PER_SCALAR: u64 = 250;

/// How often the memory is looked at, in units of work.
const MEMORY_INTERVAL: u64 = 4096;

/// What has been used up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    work: u64,
    /// Bytes of texts, names and values.
    bytes: usize,
    /// Work at which the memory is looked at again.
    next_look: u64,
    /// A limit was met: nothing more is done.
    is_spent: bool,
}

impl Flattener<'_> {
    /// Uses up so many units of work.
    pub(crate) fn spend(&mut self, work: usize, span: Span) -> Res<()> {
        if self.budget.is_spent {
            return Err(Refused);
        }
        self.budget.work = self.budget.work.saturating_add(work as u64);
        let allowed = self.allowed_work();
        if self.budget.work > allowed {
            return Err(self.spent("units of work, such as expressions, passes of loops and components", span));
        }
        if self.budget.work >= self.budget.next_look {
            self.budget.next_look = self.budget.work + MEMORY_INTERVAL;
            self.check_memory(0, span)?;
        }
        Ok(())
    }

    /// Uses up the memory of a text or name.
    pub(crate) fn keep_bytes(&mut self, bytes: usize, span: Span) -> Res<()> {
        self.check_memory(bytes, span)?;
        self.budget.bytes += bytes;
        Ok(())
    }

    /// Room for an array of the given sizes: as many units of work as it has elements, refused before it is made.
    pub(crate) fn reserve(&mut self, dims: &[usize], span: Span) -> Res<()> {
        let n = count(dims);
        if n > self.options.max_scalars {
            return Err(self.limit("the number of elements in an array", self.options.max_scalars, span));
        }
        self.spend(n, span)
    }

    /// Refuses texts that are longer than the limit.
    pub(crate) fn reserve_text(&mut self, length: usize, span: Span) -> Res<()> {
        if length > self.options.max_text {
            return Err(self.limit("the bytes of a text", self.options.max_text, span));
        }
        self.keep_bytes(length, span)
    }

    /// Whether there is room for so many bytes more.
    pub(crate) fn check_memory(&mut self, more: usize, span: Span) -> Res<()> {
        if self.used_memory().saturating_add(more) > self.options.max_memory {
            return Err(self.spent_memory(span));
        }
        Ok(())
    }

    /// Bytes in use, to within a factor of two or so.
    fn used_memory(&self) -> usize {
        let variable = size_of::<daesy_graph::Variable>() + size_of::<super::instance::PrimId>();
        self.budget.bytes
            + self.variables.len() * variable
            + self.nodes.len() * (size_of::<Node>() + size_of::<Complex>())
            + self.prims.len() * size_of::<Prim<'_>>()
            + self.classes.len() * size_of::<Class<'_>>()
            + self.mods.len() * size_of::<ModNode<'_>>()
            + self.graph.len() * GRAPH_NODE
    }

    /// Units of work that may be used up, by what has been made so far.
    fn allowed_work(&self) -> u64 {
        self.options.max_work.saturating_add(PER_SCALAR.saturating_mul(self.variables.len() as u64))
    }

    fn spent(&mut self, what: &str, span: Span) -> Refused {
        let limit = usize::try_from(self.allowed_work()).unwrap_or(usize::MAX);
        self.budget.is_spent = true;
        self.limit(what, limit, span)
    }

    fn spent_memory(&mut self, span: Span) -> Refused {
        self.budget.is_spent = true;
        self.limit("bytes of memory of the flattener", self.options.max_memory, span)
    }
}
