//! Calls of user functions: run symbolically, so that their bodies become part of the equations and are differentiated
//! with them. Where that is not possible (loops and recursion that depend on data) the call stays and the body becomes
//! a program.

use std::rc::Rc;

use daesy_graph::flat::Enumeration;
use daesy_graph::{ExprId, Span};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::algorithm::Flow;
use super::budget::CALL;
use super::class::{Core, Elem, ElemKind};
use super::expr::{Ctx, Local};
use super::modifier::{Layer, Layers};
use super::reference::Start;
use super::value::{Dims, Field, FunctionValue, Record, Scalars, Text, Type, Value, count, dims_text};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{
    Causality, ClassBody, ClassKind, ComponentDecl, ComponentRef, Expr, External, NamedArg, Path, Statement, Subscript,
};

/// What is known about functions.
#[derive(Default)]
pub(crate) struct FunctionCache<'a> {
    infos: FxHashMap<ClassId, Res<Rc<FunctionInfo<'a>>>>,
    /// Functions that have to stay programs.
    pub as_program: FxHashSet<ClassId>,
    /// A function that cannot be run symbolically, on the way out to its first call.
    pub needs_program: Option<ClassId>,
    /// Functions being run.
    pub stack: Vec<ClassId>,
    /// Conditions under which the statements at hand are run.
    pub path: Vec<ExprId>,
    /// When the branch of a when-clause at hand is run.
    pub when: Option<ExprId>,
    /// What subscripts were asserted, and where.
    pub asserted: FxHashSet<(ExprId, Span)>,
    /// What the functions that a program calls assert, until it is written into the program.
    pub program_assertions: Vec<daesy_graph::function::Statement>,
    /// Programs made, by function and shape of its arguments.
    pub programs: FxHashMap<(ClassId, String), super::program::Program>,
}

/// A function taken apart.
pub(crate) struct FunctionInfo<'a> {
    pub class: ClassId,
    pub inputs: Vec<Rc<Elem<'a>>>,
    pub outputs: Vec<Rc<Elem<'a>>>,
    pub locals: Vec<Rc<Elem<'a>>>,
    /// The statements, with the class each part is written in.
    pub body: Vec<Body<'a>>,
    pub external: Option<&'a External>,
    pub span: Span,
}

/// Statements of a function or one of its base classes.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    pub scope: ClassId,
    pub statements: &'a [Statement],
}

/// An argument by name.
pub(crate) struct Named {
    pub name: Name,
    pub value: Value,
    pub span: Span,
}

impl<'a> Flattener<'a> {
    /// A call.
    pub(crate) fn call(
        &mut self,
        function: &'a ComponentRef,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let first = function.parts[0].name;
        if function.parts.len() == 1
            && !function.is_global
            && let Some(local) = ctx.locals.iter().rev().find(|local| local.name == first.name)
        {
            let Value::Function(target) = local.value.clone() else {
                let message = format!("`{}` is not a function", first.name);
                return Err(self.error("not-a-function", first.span, message));
            };
            return self.call_value(&target, args, named, span, ctx);
        }
        if function.parts.len() == 1 && self.is_builtin(first.name.text(), builtin_scope(function, ctx)) {
            return self.builtin(first.name.text(), args, named, span, ctx);
        }
        if let Some(name) = super::overconstrained::connections_function(function) {
            return self.connections_value(name, args, span, ctx);
        }
        if function.parts.len() == 1 && self.lookup(first.name, ctx.scope).is_none() {
            let message = format!("there is no function `{}`", first.name);
            let mut known: Vec<&'static str> = super::builtin::names().to_vec();
            known.extend(self.class_names(ctx.scope));
            known.extend(self.class_names(ClassId::ROOT));
            let help = Self::suggest(first.name.text(), known)
                .unwrap_or_else(|| "functions must be declared or imported".to_owned());
            return Err(self.error_help("unknown-function", first.span, message, help));
        }
        let class = match self.resolve_start(function, ctx)? {
            Start::Class(class) => class,
            Start::Node(node, used) => self.function_of_component(node, function, used, ctx)?,
            Start::Literal(..) => {
                return Err(self.error("not-a-function", span, "an enumeration literal cannot be called"));
            }
        };
        self.call_class(class, args, named, span, ctx)
    }

    /// A function reached through a component, as in `world.gravity(r)`.
    fn function_of_component(
        &mut self,
        node: NodeId,
        function: &'a ComponentRef,
        used: usize,
        ctx: &Ctx,
    ) -> Res<ClassId> {
        if let Some(part) = function.parts.iter().find(|part| !part.subscripts.is_empty()) {
            let message = "a function cannot be found through an element of an array";
            return Err(self.error("not-a-function", part.name.span, message));
        }
        let mut node = self.force(node)?;
        for part in &function.parts[used..] {
            match self.part_node(node, part, ctx)? {
                Ok(child) => node = self.force(child)?,
                Err(class) => return Ok(self.bind_context(class, node)),
            }
        }
        if let super::instance::NodeKind::Primitive(_) | super::instance::NodeKind::Array { .. } = self.node(node).kind
        {
            let message = "a variable cannot be called like a function";
            return Err(self.error_help("not-a-function", function.span, message, "subscripts are written `[ ]`"));
        }
        Err(self.error("not-a-function", function.span, "a component cannot be called like a function"))
    }

    fn call_class(
        &mut self,
        class: ClassId,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let class_use = self.class_use(class)?;
        let core = class_use.class;
        if let Core::Enumeration(enumeration) = self.class(core).core.clone() {
            let [only] = args else {
                return Err(self.error("wrong-arguments", span, "an enumeration takes one Integer"));
            };
            let scalars = self.scalar_expr(only, ctx)?;
            if scalars.ty != Type::Integer {
                return Err(self.error("wrong-type", span, "an enumeration is made from an Integer"));
            }
            self.check_literal_number(&enumeration, scalars.items[0], span, ctx)?;
            return Ok(Value::scalar(Type::Enumeration(enumeration), scalars.items[0]));
        }
        if let Core::Real | Core::Integer | Core::Boolean | Core::String = self.class(core).core {
            let message = format!("the type `{}` cannot be called", self.class(core).full);
            return Err(self.error("not-a-function", span, message));
        }
        if self.class(core).core == Core::Object {
            let Some(constructor) = self.member_class(core, Name::new("constructor")) else {
                let message = format!("the class `{}` of external objects has no constructor", self.class(core).full);
                return Err(self.error("not-a-function", span, message));
            };
            return self.call_class(constructor?, args, named, span, ctx);
        }
        if self.class(core).core == Core::Long && self.class(core).kind == ClassKind::OperatorRecord {
            return self.operator_record_call(core, args, named, span, ctx);
        }
        let (positional, by_name) = self.argument_values(args, named, ctx)?;
        match self.class(core).kind {
            ClassKind::Record | ClassKind::OperatorRecord | ClassKind::Connector => {
                self.construct_record(core, &class_use.layers(), positional, by_name, span, ctx)
            }
            ClassKind::Function | ClassKind::OperatorFunction | ClassKind::Class => {
                if class_use.is_partial {
                    let message = format!("the function `{}` is partial and cannot be called", self.class(core).full);
                    return Err(self.error("partial-class", span, message));
                }
                let layers = class_use.layers();
                let special = self.specialize(core, &layers)?;
                self.call_function_vectorized(special, &layers, positional, by_name, span, ctx)
            }
            ClassKind::Operator => {
                Err(self.unsupported("operator classes", span, &format!("`{}`", self.class(core).full)))
            }
            kind => {
                let message =
                    format!("`{}` is a {} and cannot be called", self.class(core).full, super::check::kind_word(kind));
                Err(self.error("not-a-function", span, message))
            }
        }
    }

    /// The number that an enumeration is made from is that of one of its literals [@modelica36, sec. 4.8.5.3]: refused
    /// here if it is known, else asserted when the model runs.
    fn check_literal_number(&mut self, enumeration: &Enumeration, item: ExprId, span: Span, ctx: &Ctx) -> Res<()> {
        let n_literals = enumeration.literals.len();
        match self.graph.as_number(item) {
            // `enumeration(:)` has any literals.
            _ if n_literals == 0 => Ok(()),
            Some(number) if number >= 1.0 && number <= n_literals as f64 => Ok(()),
            Some(number) => {
                let message =
                    format!("`{}` has {n_literals} literals: there is none with the number {number}", enumeration.name);
                Err(self.error_help("out-of-range", span, message, "literals are counted from 1"))
            }
            None => {
                let name = &enumeration.name;
                let message = format!("the number of a literal of `{name}` is outside 1..{n_literals}");
                self.assert_from_one(item, n_literals, message, span, ctx);
                Ok(())
            }
        }
    }

    /// Calls a function with values in the order of its inputs.
    pub(crate) fn call_by_values(
        &mut self,
        class: ClassId,
        values: Vec<Value>,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let class_use = self.class_use(class)?;
        let layers = class_use.layers();
        let special = self.specialize(class_use.class, &layers)?;
        self.call_function(special, &layers, values, Vec::new(), span, ctx).map(first_result)
    }

    /// Calls a function that was given as an argument.
    fn call_value(
        &mut self,
        target: &FunctionValue,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let mut positional = Vec::new();
        for arg in args {
            positional.push(first_result(self.expr(arg, ctx)?));
        }
        let mut by_name: Vec<Named> = Vec::new();
        for arg in named {
            let value = first_result(self.expr(&arg.value, ctx)?);
            by_name.push(Named { name: arg.name.name, value, span: arg.name.span });
        }
        // Positional arguments fill the inputs that are not bound.
        let info = self.function_info(target.class)?;
        let free: Vec<Name> = info
            .inputs
            .iter()
            .map(|elem| elem.name)
            .filter(|&name| !target.bound.iter().any(|field| field.name == name))
            .collect();
        if positional.len() > free.len() {
            let message = format!(
                "`{}` takes {} more arguments, not {}",
                self.class(target.class).full,
                free.len(),
                positional.len()
            );
            return Err(self.error("wrong-arguments", span, message));
        }
        for (name, value) in free.into_iter().zip(positional) {
            by_name.push(Named { name, value, span });
        }
        for field in &target.bound {
            by_name.push(Named { name: field.name, value: field.value.clone(), span });
        }
        self.call_function(target.class, &Layers::new(), Vec::new(), by_name, span, ctx)
    }

    /// `function f(x = 1)`
    pub(crate) fn partial_function(&mut self, path: &'a Path, named: &'a [NamedArg], ctx: &mut Ctx) -> Res<Value> {
        let class = self.resolve_class(path, ctx.scope, ctx.instance)?;
        let core = self.class_use(class)?.class;
        if !matches!(self.class(core).kind, ClassKind::Function | ClassKind::OperatorFunction) {
            return Err(self.error("not-a-function", path.span, "`function` needs the name of a function here"));
        }
        let mut bound = Vec::with_capacity(named.len());
        for arg in named {
            bound.push(Field { name: arg.name.name, value: first_result(self.expr(&arg.value, ctx)?) });
        }
        Ok(Value::Function(Box::new(FunctionValue { class: core, bound })))
    }

    /// Inputs, outputs, body.
    pub(crate) fn function_info(&mut self, class: ClassId) -> Res<Rc<FunctionInfo<'a>>> {
        if let Some(info) = self.functions.infos.get(&class) {
            return info.clone();
        }
        let info = self.make_function_info(class).map(Rc::new);
        self.functions.infos.insert(class, info.clone());
        info
    }

    fn make_function_info(&mut self, class: ClassId) -> Res<FunctionInfo<'a>> {
        self.expand(class)?;
        self.check_class(class);
        let mut info = FunctionInfo {
            class,
            inputs: Vec::new(),
            outputs: Vec::new(),
            locals: Vec::new(),
            body: Vec::new(),
            external: None,
            span: self.class(class).span(),
        };
        for at in 0..self.class(class).elements.len() {
            let elem = self.class(class).elements[at].clone();
            let ElemKind::Component(decl) = elem.kind else { continue };
            let declared = match decl.causality {
                Some(causality) => Some(causality),
                None => {
                    // `type InReal = input Real` gives the prefix by its type.
                    match self
                        .resolve_class(&decl.type_name, elem.owner, NodeId::NONE)
                        .and_then(|one| self.class_use(one))
                    {
                        Ok(class_use) => class_use.causality,
                        Err(refused) => return Err(refused),
                    }
                }
            };
            match declared {
                Some(Causality::Input) => info.inputs.push(elem),
                Some(Causality::Output) => info.outputs.push(elem),
                None => {
                    if !elem.prefixes.is_protected && decl.variability.is_none() {
                        let message =
                            format!("`{}` is a public variable of a function: it must be input or output", elem.name);
                        self.error_help(
                            "function-variable",
                            elem.span,
                            message,
                            "declare it `protected`, `input` or `output`",
                        );
                    }
                    info.locals.push(elem);
                }
            }
        }
        self.collect_bodies(class, &mut info, &mut FxHashSet::default());
        for body in &info.body {
            self.check_breaks(body.statements)?;
        }
        Ok(info)
    }

    /// The algorithms of a function and its base classes; one that is reached twice counts once.
    fn collect_bodies(&mut self, class: ClassId, info: &mut FunctionInfo<'a>, seen: &mut FxHashSet<ClassId>) {
        if !seen.insert(class) {
            return;
        }
        for base in self.class(class).bases.clone() {
            self.collect_bodies(base, info, seen);
        }
        let Some(ClassBody::Long { composition, .. }) = self.class(class).ast.map(|ast| &ast.body) else { return };
        for section in &composition.algorithms {
            info.body.push(Body { scope: class, statements: &section.statements });
        }
        if let Some(external) = composition.external.as_deref() {
            info.external = Some(external);
        }
    }

    /// Calls a function element by element when arrays are given where scalars are expected [@modelica36, sec. 12.4.6].
    fn call_function_vectorized(
        &mut self,
        class: ClassId,
        layers: &[Layer],
        positional: Vec<Value>,
        named: Vec<Named>,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let info = self.function_info(class)?;
        let full = self.class(class).full.clone();
        let mut extra: Option<Dims> = None;
        let mut is_spread = vec![false; positional.len()];
        for (at, value) in positional.iter().enumerate() {
            let Some(elem) = info.inputs.get(at) else { break };
            is_spread[at] = self.spreads(elem, value, &mut extra, &full, span)?;
        }
        let mut is_named_spread = vec![false; named.len()];
        for (at, one) in named.iter().enumerate() {
            let Some(elem) = info.inputs.iter().find(|elem| elem.name == one.name) else { continue };
            is_named_spread[at] = self.spreads(elem, &one.value, &mut extra, &full, span)?;
        }
        let Some(extra) = extra else {
            return self.call_function(class, layers, positional, named, span, ctx);
        };
        self.reserve(&extra, span)?;
        let mut results = Vec::with_capacity(count(&extra));
        for offset in 0..count(&extra) {
            let part = |value: &Value, is_spread: bool| {
                if is_spread { value.pick(&[offset], extra.len(), &[]) } else { value.clone() }
            };
            let args = positional.iter().zip(&is_spread).map(|(value, &is_spread)| part(value, is_spread)).collect();
            let named = named
                .iter()
                .zip(&is_named_spread)
                .map(|(one, &is_spread)| Named { name: one.name, value: part(&one.value, is_spread), span: one.span })
                .collect();
            results.push(first_result(self.call_function(class, layers, args, named, span, ctx)?));
        }
        if results.is_empty() {
            return Ok(Value::Scalars(Scalars { ty: Type::Real, dims: extra, items: SmallVec::new() }));
        }
        Value::stack(results, &extra).ok_or_else(|| self.error("wrong-size", span, "the results differ in size"))
    }

    /// Whether a value has more dimensions than the input or field it is for; `extra` are those in front, the same for
    /// all.
    pub(crate) fn spreads(
        &mut self,
        elem: &Rc<Elem<'a>>,
        value: &Value,
        extra: &mut Option<Dims>,
        full: &str,
        span: Span,
    ) -> Res<bool> {
        let Some(rank) = self.declared_rank(elem)?.filter(|&rank| value.dims().len() > rank) else {
            return Ok(false);
        };
        let front: Dims = value.dims()[..value.dims().len() - rank].iter().copied().collect();
        if extra.as_ref().is_some_and(|extra| *extra != front) {
            let message = format!("the arrays given to `{full}` differ in size");
            return Err(self.error("wrong-size", span, message));
        }
        *extra = Some(front);
        Ok(true)
    }

    /// Number of dimensions an input is declared with; none for functions as inputs.
    fn declared_rank(&mut self, elem: &Rc<Elem<'a>>) -> Res<Option<usize>> {
        let ElemKind::Component(decl) = elem.kind else { return Ok(None) };
        let class = self.resolve_class(&decl.type_name, elem.owner, NodeId::NONE)?;
        let class_use = self.class_use(class)?;
        if matches!(self.class(class_use.class).kind, ClassKind::Function)
            && !self.class(class_use.class).core.is_primitive()
        {
            return Ok(None);
        }
        let from_type: usize = class_use.items.iter().map(|item| item.dims.len()).sum();
        Ok(Some(decl.subscripts.len() + decl.type_subscripts.len() + from_type))
    }

    /// Calls a function.
    pub(crate) fn call_function(
        &mut self,
        class: ClassId,
        layers: &[Layer],
        positional: Vec<Value>,
        named: Vec<Named>,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let info = self.function_info(class)?;
        let mut given = self.match_arguments(&info, positional, named, span)?;
        if let Some(external) = info.external {
            return self.external_call(&info, external, layers, given, span, ctx);
        }
        if info.body.is_empty() && info.outputs.iter().all(|elem| !has_value(elem)) {
            let message = format!("the function `{}` has no algorithm", self.class(class).full);
            return Err(self.error_help(
                "partial-class",
                span,
                message,
                "partial functions must be replaced by complete ones",
            ));
        }
        // With numbers only, every loop can be run now.
        let is_known = given.iter().flatten().all(|value| self.is_number(value));
        if is_known || !self.functions.as_program.contains(&class) {
            if self.call_depth >= self.options.max_recursion {
                if is_known {
                    return Err(self.limit("the recursion of functions", self.options.max_recursion, span));
                }
                self.functions.needs_program = Some(class);
                return Err(Refused);
            }
            let is_first = !self.functions.stack.contains(&class);
            self.functions.stack.push(class);
            self.call_depth += 1;
            let path = std::mem::take(&mut self.functions.path);
            self.functions.path = path.clone();
            let n_asserts = self.out.assertions.len();
            let is_quiet = is_first && !ctx.in_function && !is_known && !self.generates_events(class);
            let arguments = if is_quiet { self.keep_events(&given) } else { given.clone() };
            let result = self.run_function(&info, layers, arguments, span, ctx);
            self.functions.path = path;
            self.call_depth -= 1;
            self.functions.stack.pop();
            let result = result.map(|value| if is_quiet { self.without_events(&value) } else { value });
            match (self.functions.needs_program, &result) {
                (Some(needed), Err(_)) if needed == class && is_first => {
                    self.out.assertions.truncate(n_asserts);
                    self.functions.needs_program = None;
                    self.functions.as_program.insert(class);
                }
                _ => return result,
            }
        }
        self.bind_inputs(&info, layers, &mut given, span, ctx)?;
        self.call_program(&info, given, span)
    }

    /// Whether a value holds numbers only.
    pub(crate) fn is_number(&self, value: &Value) -> bool {
        let mut items = Vec::new();
        value.flat_items(&mut items);
        items.iter().all(|&item| self.graph.as_number(item).is_some() || self.graph.as_whole_number(item).is_some())
    }

    fn match_arguments(
        &mut self,
        info: &FunctionInfo<'a>,
        positional: Vec<Value>,
        named: Vec<Named>,
        span: Span,
    ) -> Res<Vec<Option<Value>>> {
        let full = self.class(info.class).full.clone();
        if positional.len() > info.inputs.len() {
            let message = format!("`{full}` takes {} arguments, not {}", info.inputs.len(), positional.len());
            return Err(self.error("wrong-arguments", span, message));
        }
        let mut given: Vec<Option<Value>> = positional.into_iter().map(Some).collect();
        given.resize(info.inputs.len(), None);
        for one in named {
            let Some(at) = info.inputs.iter().position(|elem| elem.name == one.name) else {
                let message = format!("`{full}` has no input `{}`", one.name);
                let known: Vec<&str> = info.inputs.iter().map(|elem| elem.name.text()).collect();
                let help = Self::suggest(one.name.text(), known).unwrap_or_default();
                return Err(self.error_help("wrong-arguments", one.span, message, help));
            };
            if given[at].is_some() {
                let message = format!("the input `{}` of `{full}` is given twice", one.name);
                return Err(self.error("wrong-arguments", one.span, message));
            }
            given[at] = Some(one.value);
        }
        Ok(given)
    }

    /// Fills defaults and checks types of arguments without running the body.
    fn bind_inputs(
        &mut self,
        info: &FunctionInfo<'a>,
        layers: &[Layer],
        given: &mut [Option<Value>],
        span: Span,
        ctx: &Ctx,
    ) -> Res<()> {
        self.spend(CALL, span)?;
        let mut inner = self.function_ctx(info, ctx);
        for at in input_order(info) {
            let elem = info.inputs[at].clone();
            let value = self.input_value(info, layers, &elem, given[at].take(), span, &mut inner)?;
            inner.locals.push(Local { name: elem.name, value: value.clone(), is_assignable: false, is_set: true });
            given[at] = Some(value);
        }
        Ok(())
    }

    pub(crate) fn function_ctx(&self, info: &FunctionInfo<'a>, ctx: &Ctx) -> Ctx {
        let mut inner = Ctx::new(info.class, NodeId::NONE);
        inner.is_structural = ctx.is_structural;
        inner.in_function = true;
        inner.in_program = ctx.in_program;
        inner
    }

    /// The value of an input: given, or its default.
    pub(crate) fn input_value(
        &mut self,
        info: &FunctionInfo<'a>,
        layers: &[Layer],
        elem: &Rc<Elem<'a>>,
        given: Option<Value>,
        span: Span,
        inner: &mut Ctx,
    ) -> Res<Value> {
        let value = match given {
            Some(value) => value,
            None => match self.default_value(layers, elem, inner)? {
                Some(value) => value,
                None => {
                    // A record whose fields all have values needs none.
                    let made = self.shape_local(elem, None, span, inner)?;
                    if matches!(made, Value::Record(_)) && !self.has_placeholder(&made) {
                        return Ok(made);
                    }
                    let message = format!("`{}` needs the input `{}`", self.class(info.class).full, elem.name);
                    return Err(self.error("wrong-arguments", span, message));
                }
            },
        };
        self.shape_local(elem, Some(value), span, inner)
    }

    /// The value a declaration in a function gives, with modifications from outside first.
    pub(crate) fn default_value(
        &mut self,
        layers: &[Layer],
        elem: &Rc<Elem<'a>>,
        inner: &mut Ctx,
    ) -> Res<Option<Value>> {
        let mut all: Layers = layers.iter().filter_map(|layer| self.layer_child(layer, elem.name)).collect();
        for layer in &elem.layers {
            all.push(layer.clone());
        }
        for layer in &all {
            if self.modifier(layer.mods).binding.is_some() {
                if layer.instance == NodeId::SELF {
                    let Some(expr) = self.modifier(layer.mods).binding else { continue };
                    let scope = std::mem::replace(&mut inner.scope, layer.scope);
                    let value = self.expr(expr, inner);
                    inner.scope = scope;
                    return value.map(|value| Some(first_result(value)));
                }
                let mut layer = layer.clone();
                layer.path.clear();
                return self.layer_value(&layer, inner.is_structural).map(|value| Some(first_result(value)));
            }
        }
        let ElemKind::Component(decl) = elem.kind else { return Ok(None) };
        let Some(crate::syntax::ModificationValue::Expr(expr)) =
            decl.modification.as_ref().and_then(|modification| modification.value.as_ref())
        else {
            return Ok(None);
        };
        let scope = std::mem::replace(&mut inner.scope, elem.owner);
        let value = self.expr(expr, inner);
        inner.scope = scope;
        value.map(|value| Some(first_result(value)))
    }

    /// A variable of a function with its declared type and sizes; without a value, a placeholder.
    pub(crate) fn shape_local(
        &mut self,
        elem: &Rc<Elem<'a>>,
        value: Option<Value>,
        span: Span,
        inner: &mut Ctx,
    ) -> Res<Value> {
        let ElemKind::Component(decl) = elem.kind else { return Err(Refused) };
        let class = self.resolve_class(&decl.type_name, elem.owner, NodeId::NONE)?;
        let class_use = self.class_use(class)?;
        let core = class_use.class;
        let scope = std::mem::replace(&mut inner.scope, elem.owner);
        let mut wanted: SmallVec<[Option<usize>; 2]> = SmallVec::new();
        let subscripts = decl.subscripts.iter().chain(&decl.type_subscripts).map(|one| (one, elem.owner)).chain(
            class_use
                .items
                .iter()
                .flat_map(|item| item.dims.iter().map(move |one| (one, item.scope.unwrap_or(elem.owner)))),
        );
        let mut result = Ok(());
        // `A[:, size(A, 1)]`: the value knows.
        let n_locals = inner.locals.len();
        if let Some(value) = value.clone().filter(|_| uses_any(decl, &|name| name == elem.name)) {
            inner.locals.push(Local { name: elem.name, value, is_assignable: false, is_set: true });
        }
        for (subscript, dim_scope) in subscripts {
            match subscript {
                Subscript::All(_) => wanted.push(None),
                Subscript::Expr(expr) => {
                    if let crate::syntax::ExprKind::Ref(reference) = &expr.kind
                        && let Some(ty) = self.index_type(reference, inner)
                    {
                        wanted.push(Some(match ty {
                            Type::Enumeration(enumeration) => enumeration.literals.len(),
                            _ => 2,
                        }));
                        continue;
                    }
                    inner.scope = dim_scope;
                    let size = self.expr(expr, inner);
                    inner.scope = elem.owner;
                    let size = size.and_then(|value| {
                        let scalars = self.scalars(value, "an array size", expr.span)?;
                        self.single(&scalars, expr.span)
                    });
                    match size {
                        Ok(item) if inner.in_program && self.graph.as_number(item).is_none() => {
                            result = Err(self.unsupported("arrays whose size changes", expr.span, "this array size"));
                        }
                        Ok(item) => match self.known_number(item, expr.span) {
                            Ok(number) => wanted.push(Some(number.max(0.0) as usize)),
                            Err(refused) => result = Err(refused),
                        },
                        Err(refused) => result = Err(refused),
                    }
                }
            }
        }
        inner.locals.truncate(n_locals);
        inner.scope = scope;
        result?;
        let what = format!("`{}`", elem.name);
        match value {
            None => {
                let dims: Dims = wanted.iter().map(|size| size.unwrap_or(0)).collect();
                let value = self.placeholder(core, &dims, elem.span)?;
                self.with_field_values(value, decl, elem.owner, inner)
            }
            Some(value) => {
                if matches!(value, Value::Function(_)) {
                    return Ok(value);
                }
                let fits = value.dims().len() == wanted.len()
                    && value.dims().iter().zip(&wanted).all(|(have, want)| want.is_none_or(|want| want == *have));
                if !fits {
                    let wanted = wanted
                        .iter()
                        .map(|size| size.map_or_else(|| ":".to_owned(), |size| size.to_string()))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let message = format!("{what} has size [{wanted}], its value has size {}", dims_text(value.dims()));
                    return Err(self.error("wrong-size", span, message));
                }
                let dims: Dims = value.dims().iter().copied().collect();
                self.typed_value(core, value, &dims, &what, span)
            }
        }
    }

    /// A record with the values its declaration gives to single fields, as in `Complex c(re = 1)`.
    fn with_field_values(
        &mut self,
        value: Value,
        decl: &'a ComponentDecl,
        scope: ClassId,
        inner: &mut Ctx,
    ) -> Res<Value> {
        let (Value::Record(mut record), Some(modification)) = (value.clone(), decl.modification.as_deref()) else {
            return Ok(value);
        };
        for argument in &modification.args {
            let crate::syntax::Argument::Modify { name, modification: Some(one), .. } = argument else { continue };
            let Some(crate::syntax::ModificationValue::Expr(expr)) = &one.value else { continue };
            let Some(field) =
                record.fields.iter().position(|field| name.parts.len() == 1 && field.name == name.parts[0].name)
            else {
                let message = format!("the record has no field `{}`", super::lookup::dotted(&name.parts));
                return Err(self.error("unknown-modifier", name.span, message));
            };
            let was = std::mem::replace(&mut inner.scope, scope);
            let given = self.expr(expr, inner);
            inner.scope = was;
            record.fields[field].value = first_result(given?);
        }
        Ok(Value::Record(record))
    }

    /// A value checked against a class.
    pub(crate) fn typed_value(
        &mut self,
        core: ClassId,
        value: Value,
        dims: &[usize],
        what: &str,
        span: Span,
    ) -> Res<Value> {
        let ty = match &self.class(core).core {
            Core::Real => Type::Real,
            Core::Integer => Type::Integer,
            Core::Boolean => Type::Boolean,
            Core::String => Type::String,
            Core::Enumeration(enumeration) => Type::Enumeration(enumeration.clone()),
            Core::Object if matches!(value, Value::Object(_)) => return Ok(value),
            _ => {
                let Value::Record(record) = value else {
                    let message = format!("{what} is a `{}`, its value is {}", self.class(core).full, value.describe());
                    return Err(self.error("wrong-type", span, message));
                };
                self.expand(core)?;
                let mut fields = Vec::with_capacity(record.fields.len());
                for at in 0..self.class(core).components.len() {
                    let elem = self.class(core).elements[self.class(core).components[at] as usize].clone();
                    let Some(field) = record.fields.iter().find(|field| field.name == elem.name) else {
                        let message =
                            format!("{what} is a `{}`, its value has no field `{}`", self.class(core).full, elem.name);
                        return Err(self.error("wrong-type", span, message));
                    };
                    fields.push(field.clone());
                }
                if fields.len() != record.fields.len() {
                    let message = format!("{what} is a `{}`, its value has other fields", self.class(core).full);
                    return Err(self.error("wrong-type", span, message));
                }
                return Ok(Value::Record(Box::new(Record { class: core, dims: record.dims, fields })));
            }
        };
        self.coerce(value, &ty, dims, what, span)
    }

    /// A value that stands for "not assigned yet": NaN everywhere.
    pub(crate) fn placeholder(&mut self, core: ClassId, dims: &[usize], span: Span) -> Res<Value> {
        let ty = match &self.class(core).core {
            Core::Real => Type::Real,
            Core::Integer => Type::Integer,
            Core::Boolean => Type::Boolean,
            Core::Enumeration(enumeration) => Type::Enumeration(enumeration.clone()),
            Core::Object => return Ok(Value::Tuple(Vec::new())),
            Core::String => {
                let text = Text { text: std::sync::Arc::from(""), is_known: false };
                return Ok(Value::Texts { dims: dims.iter().copied().collect(), items: vec![text; count(dims)] });
            }
            _ => {
                if self.depth >= self.options.max_depth {
                    return Err(self.limit("the depth of records in each other", self.options.max_depth, span));
                }
                self.depth += 1;
                let fields = self.placeholder_fields(core, span);
                self.depth -= 1;
                let fields = fields?;
                let record = Value::Record(Box::new(Record { class: core, dims: Dims::new(), fields }));
                return self.fill(&record, dims, span);
            }
        };
        self.reserve(dims, span)?;
        let nan = self.graph.number(f64::NAN);
        let items = SmallVec::from_elem(nan, count(dims));
        Ok(Value::Scalars(Scalars { ty, dims: dims.iter().copied().collect(), items }))
    }

    /// The fields of a record that is not assigned yet, with their default values; sizes may use other fields.
    fn placeholder_fields(&mut self, core: ClassId, span: Span) -> Res<Vec<Field>> {
        self.expand(core)?;
        let elems: Vec<Rc<Elem<'a>>> =
            self.class(core).components.iter().map(|&at| self.class(core).elements[at as usize].clone()).collect();
        let names: FxHashSet<Name> = elems.iter().map(|elem| elem.name).collect();
        let mut ctx = Ctx::new(core, NodeId::NONE);
        ctx.is_structural = true;
        ctx.in_function = true;
        let mut made: Vec<Option<Value>> = vec![None; elems.len()];
        while let Some(first) = made.iter().position(Option::is_none) {
            let is_ready = |elem: &Rc<Elem<'a>>, locals: &[Local]| {
                let is_open = |name: Name| {
                    name != elem.name && names.contains(&name) && !locals.iter().any(|local| local.name == name)
                };
                !matches!(elem.kind, ElemKind::Component(decl) if uses_any(decl, &is_open))
            };
            let at = (first..elems.len())
                .find(|&at| made[at].is_none() && is_ready(&elems[at], &ctx.locals))
                .unwrap_or(first);
            let elem = &elems[at];
            let given = self.default_value(&Layers::new(), elem, &mut ctx).ok().flatten();
            let is_set = given.is_some();
            let value = self.shape_local(elem, given, span, &mut ctx)?;
            ctx.locals.push(Local { name: elem.name, value: value.clone(), is_assignable: false, is_set });
            made[at] = Some(value);
        }
        let fields = elems.iter().zip(made).filter_map(|(elem, value)| Some(Field { name: elem.name, value: value? }));
        Ok(fields.collect())
    }

    /// The values of the arguments of a call, by position and by name.
    pub(crate) fn argument_values(
        &mut self,
        args: &'a [Expr],
        named: &'a [NamedArg],
        ctx: &mut Ctx,
    ) -> Res<(Vec<Value>, Vec<Named>)> {
        let mut positional = Vec::with_capacity(args.len());
        for arg in args {
            positional.push(first_result(self.expr(arg, ctx)?));
        }
        let mut by_name = Vec::with_capacity(named.len());
        for arg in named {
            let value = first_result(self.expr(&arg.value, ctx)?);
            by_name.push(Named { name: arg.name.name, value, span: arg.name.span });
        }
        Ok((positional, by_name))
    }

    /// The inside of a function with the values of its inputs.
    pub(crate) fn entered(
        &mut self,
        info: &FunctionInfo<'a>,
        layers: &[Layer],
        mut given: Vec<Option<Value>>,
        span: Span,
        ctx: &Ctx,
    ) -> Res<Ctx> {
        let mut inner = self.function_ctx(info, ctx);
        for at in input_order(info) {
            let elem = &info.inputs[at];
            let value = self.input_value(info, layers, elem, given[at].take(), span, &mut inner)?;
            inner.locals.push(Local { name: elem.name, value, is_assignable: false, is_set: true });
        }
        Ok(inner)
    }

    /// Runs a function on symbolic values.
    fn run_function(
        &mut self,
        info: &FunctionInfo<'a>,
        layers: &[Layer],
        given: Vec<Option<Value>>,
        span: Span,
        ctx: &Ctx,
    ) -> Res<Value> {
        let mut inner = self.entered(info, layers, given, span, ctx)?;
        self.declare_locals(info, layers, &mut inner)?;
        for body in &info.body {
            inner.scope = body.scope;
            match self.run(body.statements, &mut inner)? {
                Flow::Next => {}
                Flow::Return => break,
                // No loop is left outside of loops.
                Flow::Break | Flow::Maybe(_) => return Err(Refused),
            }
        }
        self.function_results(info, &inner)
    }

    /// The outputs of a function that has been run.
    pub(crate) fn function_results(&mut self, info: &FunctionInfo<'a>, inner: &Ctx) -> Res<Value> {
        let mut results = Vec::with_capacity(info.outputs.len());
        for elem in &info.outputs {
            let Some(local) = inner.locals.iter().find(|local| local.name == elem.name) else { return Err(Refused) };
            let value = local.value.clone();
            // A field that a record was not given is missed where it is used.
            let is_unset = match &value {
                Value::Record(record) => {
                    !record.fields.is_empty() && record.fields.iter().all(|field| self.has_placeholder(&field.value))
                }
                other => self.has_placeholder(other),
            };
            if is_unset {
                let message =
                    format!("the output `{}` of `{}` is not assigned", elem.name, self.class(info.class).full);
                return Err(self.error("unset-variable", elem.span, message));
            }
            results.push(value);
        }
        Ok(match results.len() {
            1 => results.swap_remove(0),
            _ => Value::Tuple(results),
        })
    }

    pub(crate) fn has_placeholder(&self, value: &Value) -> bool {
        let mut items = Vec::new();
        value.flat_items(&mut items);
        items.iter().any(|&item| self.graph.as_number(item).is_some_and(f64::is_nan))
    }

    /// Declares outputs and protected variables, in an order in which their values are known.
    pub(crate) fn declare_locals(&mut self, info: &FunctionInfo<'a>, layers: &[Layer], inner: &mut Ctx) -> Res<()> {
        let mut waiting: Vec<Rc<Elem<'a>>> = info.outputs.iter().chain(&info.locals).cloned().collect();
        // A size or value may use a variable that is declared later: declare first what others need.
        let names: FxHashSet<Name> = waiting.iter().map(|elem| elem.name).collect();
        let mut done: FxHashSet<Name> = FxHashSet::default();
        while !waiting.is_empty() {
            let ready = waiting.iter().position(|elem| {
                let ElemKind::Component(decl) = elem.kind else { return true };
                !uses_any(decl, &|name| name != elem.name && names.contains(&name) && !done.contains(&name))
            });
            let elem = waiting.remove(ready.unwrap_or(0));
            let value = self.default_value(layers, &elem, inner)?;
            let mut is_set = value.is_some();
            let is_constant = matches!(elem.kind, ElemKind::Component(decl) if decl.variability.is_some());
            let value = self.shape_local(&elem, value, elem.span, inner)?;
            // A record may get its value field by field, as in `Complex c(re = 1, im = 0)`.
            is_set |= matches!(value, Value::Record(_)) && !self.has_placeholder(&value);
            inner.locals.push(Local { name: elem.name, value, is_assignable: !is_constant, is_set });
            done.insert(elem.name);
        }
        Ok(())
    }
}

/// Where the name of a built-in function could be hidden: `.sin` means the one at the top [@modelica36, sec. 5.3.3].
pub(crate) const fn builtin_scope(function: &ComponentRef, ctx: &Ctx) -> ClassId {
    if function.is_global { ClassId::ROOT } else { ctx.scope }
}

/// The first result of a call with several.
pub(crate) fn first_result(value: Value) -> Value {
    match value {
        Value::Tuple(mut items) if !items.is_empty() => items.swap_remove(0),
        other => other,
    }
}

/// The inputs of a function in an order in which sizes and defaults use only those before, such as `v` before
/// `input Real n = 2*v; input Real v` [@modelica36, sec. 12.4.1]; as they are declared where there is none.
fn input_order(info: &FunctionInfo<'_>) -> Vec<usize> {
    let mut waiting: Vec<usize> = (0..info.inputs.len()).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_open = |name: Name| waiting.iter().any(|&at| info.inputs[at].name == name);
        let ready = waiting.iter().position(|&at| {
            let elem = &info.inputs[at];
            !matches!(elem.kind, ElemKind::Component(decl) if uses_any(decl, &|name| name != elem.name && is_open(name)))
        });
        order.push(waiting.remove(ready.unwrap_or(0)));
    }
    order
}

/// Whether a declaration has a value.
pub(crate) fn has_value(elem: &Elem<'_>) -> bool {
    match elem.kind {
        ElemKind::Component(decl) => decl.modification.as_ref().is_some_and(|one| one.value.is_some()),
        ElemKind::Class(_) => false,
    }
}

/// Whether a declaration's sizes or value use one of the names meant.
pub(crate) fn uses_any(decl: &ComponentDecl, is_meant: &dyn Fn(Name) -> bool) -> bool {
    let mut found = false;
    let mut visit = |name: Name| found |= is_meant(name);
    for subscript in decl.subscripts.iter().chain(&decl.type_subscripts) {
        if let Subscript::Expr(expr) = subscript {
            super::check::names_in(expr, &mut visit);
        }
    }
    let mut waiting: Vec<&crate::syntax::Modification> = decl.modification.as_deref().into_iter().collect();
    while let Some(modification) = waiting.pop() {
        if let Some(crate::syntax::ModificationValue::Expr(expr)) = &modification.value {
            super::check::names_in(expr, &mut visit);
        }
        waiting.extend(modification.args.iter().filter_map(|argument| match argument {
            crate::syntax::Argument::Modify { modification, .. } => modification.as_deref(),
            _ => None,
        }));
    }
    found
}
