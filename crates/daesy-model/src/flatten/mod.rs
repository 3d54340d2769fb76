//! From syntax to the flat model: lookup, instantiation, modification, scalar equations [@modelica36].
//!
//! | part | idea |
//! |---|---|
//! | `class`, `class_use` | classes as they are meant at one place: with their base classes, redeclarations applied |
//! | `lookup` | what a name means at one place |
//! | `modifier` | modifications as layers, outermost first |
//! | `instance`, `variable` | the tree of components, made on demand |
//! | `attribute` | values and attributes of scalar variables |
//! | `value`, `expr`, `array`, `builtin`, `text` | expressions as arrays of scalar graph nodes |
//! | `function`, `external`, `native`, `table_file`, `record`, `program` | calls: run symbolically, or kept as programs |
//! | `equation`, `iterate`, `algorithm`, `assign`, `connect`, `overconstrained`, `expandable`, `stream` | equations in the end |
//! | `clock`, `partition`, `tick` | clocks: operators as marks, what ticks together, when-clauses in the end |
//! | `delay` | delayed signals as queues of changes, or by their histories |
//! | `transport` | `spatialDistribution`: what is in a pipe |
//! | `vanish` | derivatives that a parameter of zero takes out |
//! | `check` | restrictions of the class kinds |
//! | `budget` | how much work and memory all this may take |

mod algorithm;
mod array;
mod assign;
mod attribute;
mod budget;
mod builtin;
mod check;
mod class;
mod class_use;
mod clock;
mod connect;
mod delay;
mod equation;
mod expandable;
mod expr;
mod external;
mod function;
mod impure;
mod instance;
mod iterate;
mod least_size;
mod lookup;
mod modifier;
mod native;
mod operator;
mod overconstrained;
mod partition;
mod program;
mod record;
mod reference;
mod stream;
mod table_file;
mod text;
mod tick;
mod transport;
mod value;
mod vanish;
mod variable;
mod whole;

use std::sync::Arc;

use daesy_graph::finding::nearest;
use daesy_graph::flat::Experiment;
use daesy_graph::{Finding, FlatDae, Graph, Level, SourceMap, Span, Variable};
use hashbrown::HashMap;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::library::Library;
use crate::name::Name;
use crate::syntax::{Argument, ClassDef, ClassKind, ElementKind, Expr, ExprKind, ModificationValue, UnaryOp};
use class::Class;
use instance::{Node, Prim};
use modifier::{ModId, ModNode};

/// A class at one place of the class tree, redeclarations applied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ClassId(pub u32);

/// A component instance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub u32);

impl NodeId {
    /// No instance: only constants can be read.
    pub(crate) const NONE: Self = Self(u32::MAX);
    /// The instance of the class at hand, to be filled in.
    pub(crate) const SELF: Self = Self(u32::MAX - 1);

    /// Whether this is a component instance.
    pub(crate) const fn is_some(self) -> bool {
        self.0 < u32::MAX - 1
    }
}

impl ClassId {
    /// The class that holds all top-level classes.
    pub(crate) const ROOT: Self = Self(0);
}

/// The work at hand cannot go on; a finding that says why has been made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused;

pub(crate) type Res<T> = Result<T, Refused>;

/// Limits and wishes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlattenOptions {
    /// Largest number of scalar variables in the model.
    pub max_scalars: usize,
    /// Deepest nesting of components, classes and modifications.
    pub max_depth: usize,
    /// Deepest recursion of functions.
    pub max_recursion: usize,
    /// Units of work beside what scalar variables allow: expressions looked at, passes of loops, statements run, elements
    /// of arrays, components.
    pub max_work: u64,
    /// Bytes of memory in all, by an estimate.
    pub max_memory: usize,
    /// Bytes of one text.
    pub max_text: usize,
    /// Values that replace those of parameters, by dotted name.
    pub values: FxHashMap<String, f64>,
    /// Parameters that will have other values, by dotted name: that one is zero now says nothing of the model.
    pub moved: Vec<String>,
}

impl Default for FlattenOptions {
    fn default() -> Self {
        Self {
            max_scalars: 10_000_000,
            max_depth: 150,
            max_recursion: 100,
            max_work: 50_000_000,
            max_memory: 1_500_000_000,
            max_text: 1_000_000,
            values: FxHashMap::default(),
            moved: Vec::new(),
        }
    }
}

/// Why there is no flat model.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.summary())]
pub struct FlattenError {
    /// What was found; at least one error.
    pub findings: Vec<Finding>,
    /// The texts the findings point into.
    pub sources: Arc<SourceMap>,
    /// Names among the values wished for that cannot be given one; each has a finding.
    pub refused_values: Vec<String>,
}

impl FlattenError {
    fn summary(&self) -> String {
        let mut lines = Vec::new();
        for finding in &self.findings {
            let place = self.sources.place(finding.span).map_or_else(String::new, |place| format!("{place}: "));
            let help = finding.help.as_ref().map_or_else(String::new, |help| format!(" ({help})"));
            lines.push(format!("{place}{}[{}]: {}{help}", finding.level.word(), finding.code, finding.message));
        }
        lines.join("\n")
    }
}

/// A redeclared class and the class it has to fit.
#[derive(Clone, Copy)]
pub(crate) struct PendingConstraint {
    constraint: ClassId,
    new: ClassId,
    name: Name,
    span: Span,
}

/// Everything that is known while one model is flattened.
pub(crate) struct Flattener<'a> {
    library: &'a Library,
    options: FlattenOptions,
    findings: Vec<Finding>,
    reported: FxHashSet<(&'static str, Span, u64)>,
    /// Number of findings when the last one was that a value is known only when the model runs.
    not_yet_known: Option<usize>,
    /// Names among the values wished for that cannot be given one.
    refused_values: Vec<String>,
    n_errors: usize,
    // Classes.
    classes: Vec<Class<'a>>,
    mods: Vec<ModNode<'a>>,
    mod_cache: FxHashMap<usize, ModId>,
    specialized: FxHashMap<(ClassId, Vec<modifier::Layer>), ClassId>,
    bound: FxHashMap<(ClassId, NodeId), ClassId>,
    tops: FxHashMap<Name, Option<Res<ClassId>>>,
    within: FxHashMap<String, Vec<&'a ClassDef>>,
    expand_depth: usize,
    real: ClassId,
    integer: ClassId,
    boolean: ClassId,
    string: ClassId,
    // Instances.
    nodes: Vec<Node>,
    prims: Vec<Prim<'a>>,
    package_nodes: FxHashMap<ClassId, NodeId>,
    auto_inner: FxHashMap<Name, NodeId>,
    root: NodeId,
    depth: usize,
    n_within_themselves: usize,
    evaluating: Vec<instance::PrimId>,
    // Results.
    graph: Graph,
    variables: Vec<Variable>,
    var_prims: Vec<instance::PrimId>,
    out: equation::Output,
    connections: connect::Connections,
    connection_graph: overconstrained::ConnectionGraph,
    values: FxHashMap<value::BindingKey, Arc<value::Value>>,
    functions: function::FunctionCache<'a>,
    call_depth: usize,
    budget: budget::Budget,
    variability: Vec<expr::Changes>,
    reach: daesy_graph::traverse::Reach,
    evaluator: daesy_graph::evaluate::Evaluator,
    checked_mods: FxHashSet<(ModId, ClassId)>,
    pending_constraints: Vec<PendingConstraint>,
    section_cache: FxHashMap<ClassId, std::rc::Rc<equation::Sections<'a>>>,
    in_initial: bool,
    pre_uses: Vec<(daesy_graph::VarId, Span)>,
    waiting: Vec<expandable::Waiting<'a>>,
    extra_members: FxHashMap<(NodeId, Name), NodeId>,
    expandable_pairs: Vec<expandable::Pair>,
    has_expandable: bool,
    /// A class is declared `outer` somewhere.
    has_outer_classes: bool,
    seen_as_outer: FxHashMap<NodeId, NodeId>,
    units: FxHashMap<Arc<str>, daesy_graph::Unit>,
    /// Whether a constant has a unit that is more than a number, where that has been asked.
    pub(crate) constant_units: FxHashMap<instance::PrimId, bool>,
    /// Where constants with units were folded into expressions, and variables whose values hold such.
    pub(crate) folded_units: Vec<Span>,
    pub(crate) folded_into: FxHashSet<String>,
    shadowed: HashMap<(ClassId, Name), bool, FxBuildHasher>,
    marks: clock::Marks,
    delays: delay::Delays,
    transports: transport::Transports,
    impure: impure::Impure,
    integers: whole::Integers,
}

impl<'a> Flattener<'a> {
    fn new(library: &'a Library, options: FlattenOptions) -> Self {
        let mut flattener = Self {
            library,
            options,
            findings: Vec::new(),
            reported: FxHashSet::default(),
            not_yet_known: None,
            refused_values: Vec::new(),
            n_errors: 0,
            classes: Vec::new(),
            mods: Vec::new(),
            mod_cache: FxHashMap::default(),
            specialized: FxHashMap::default(),
            bound: FxHashMap::default(),
            tops: FxHashMap::default(),
            within: FxHashMap::default(),
            expand_depth: 0,
            real: ClassId::ROOT,
            integer: ClassId::ROOT,
            boolean: ClassId::ROOT,
            string: ClassId::ROOT,
            nodes: Vec::new(),
            prims: Vec::new(),
            package_nodes: FxHashMap::default(),
            auto_inner: FxHashMap::default(),
            root: NodeId::NONE,
            depth: 0,
            n_within_themselves: 0,
            evaluating: Vec::new(),
            graph: Graph::default(),
            variables: Vec::new(),
            var_prims: Vec::new(),
            out: equation::Output::default(),
            connections: connect::Connections::default(),
            connection_graph: overconstrained::ConnectionGraph::default(),
            values: FxHashMap::default(),
            functions: function::FunctionCache::default(),
            call_depth: 0,
            budget: budget::Budget::default(),
            variability: Vec::new(),
            reach: daesy_graph::traverse::Reach::new(),
            evaluator: daesy_graph::evaluate::Evaluator::new(),
            checked_mods: FxHashSet::default(),
            pending_constraints: Vec::new(),
            section_cache: FxHashMap::default(),
            in_initial: false,
            pre_uses: Vec::new(),
            waiting: Vec::new(),
            extra_members: FxHashMap::default(),
            expandable_pairs: Vec::new(),
            has_expandable: false,
            has_outer_classes: false,
            seen_as_outer: FxHashMap::default(),
            units: FxHashMap::default(),
            constant_units: FxHashMap::default(),
            folded_units: Vec::new(),
            folded_into: FxHashSet::default(),
            shadowed: HashMap::default(),
            marks: clock::Marks::default(),
            delays: delay::Delays::default(),
            transports: transport::Transports::default(),
            impure: impure::Impure::default(),
            integers: whole::Integers::default(),
        };
        flattener.make_root();
        flattener
    }

    /// Records a finding, once for each place and text.
    pub(crate) fn report(&mut self, finding: Finding) -> Refused {
        use std::hash::{Hash, Hasher};
        let mut hasher = rustc_hash::FxHasher::default();
        finding.message.hash(&mut hasher);
        // A wrong declaration in a class of many instances is one mistake: instances differ in the message only by
        // name.
        let key = (finding.code, finding.span, if finding.span.is_none() { hasher.finish() } else { 0 });
        if finding.level == Level::Error {
            self.n_errors += 1;
        }
        if self.reported.insert(key) {
            self.findings.push(finding);
        }
        Refused
    }

    /// Records that a value must be known before the simulation and is not.
    pub(crate) fn not_structural(&mut self, span: Span, message: impl Into<String>, help: Option<&str>) -> Refused {
        let mut finding = Finding::error("not-structural", span, message);
        finding.help = help.map(str::to_owned);
        let refused = self.report(finding);
        self.not_yet_known = Some(self.findings.len());
        refused
    }

    /// Records an error.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Refused {
        self.report(Finding::error(code, span, message))
    }

    /// Records an error with its remedy.
    pub(crate) fn error_help(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Refused {
        self.report(Finding::error(code, span, message).with_help(help))
    }

    /// Records that something is not supported, by name.
    pub(crate) fn unsupported(&mut self, feature: &str, span: Span, what: &str) -> Refused {
        let message = match section_of(feature) {
            Some(section) => format!("{what} is not supported: {feature} (Modelica specification, section {section})"),
            None => format!("{what} is not supported: {feature}"),
        };
        self.report(
            Finding::error("unsupported", span, message).with_names([feature.to_owned()]).with_help(
                "the page \"The language\" of the book lists what is supported; rewrite this part without it",
            ),
        )
    }

    /// Records that a limit was met.
    pub(crate) fn limit(&mut self, what: &str, limit: usize, span: Span) -> Refused {
        self.report(
            Finding::error("limit", span, format!("the limit of {limit} for {what} is exceeded"))
                .with_help("look for a loop or a recursion that does not end, or make the model smaller"),
        )
    }

    /// "did you mean" as a remedy.
    pub(crate) fn suggest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
        nearest(word, known).map(|near| format!("did you mean `{near}`?"))
    }

    /// The nearest of what there is, or all of it where nothing is near and the list is short.
    pub(crate) fn suggest_or_list<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
        const MOST: usize = 12;
        let known: Vec<&str> = known.into_iter().collect();
        Self::suggest(word, known.iter().copied()).or_else(|| {
            let listed: Vec<String> = known.iter().take(MOST).map(|name| format!("`{name}`")).collect();
            let more = if known.len() > MOST { ", .." } else { "" };
            (!listed.is_empty()).then(|| format!("it has {}{more}", listed.join(", ")))
        })
    }
}

/// Where the specification of Modelica 3.6 speaks of something that is not supported.
fn section_of(feature: &str) -> Option<&'static str> {
    Some(match feature {
        "spatialDistribution" => "3.7.4.2",
        "delay" => "3.7.4.1",
        "state machines" => "17",
        "solver methods of clocks" => "16.8.2",
        "while" | "break in while" => "11.2.3",
        "return in a branch" => "12.1.2",
        "when in if" | "when-statements" => "11.2.7",
        "for" => "11.2.2",
        "expandable connectors" | "nested expandable connectors" => "9.1.3",
        "overconstrained arrays" => "9.4",
        "external functions" => "12.9",
        "arrays of external objects" => "12.9.7",
        "operator classes" => "14",
        "terminate" => "8.3.8",
        "selective model extension" => "7.4",
        "joining arrays of texts" => "10.4.2",
        "texts that change" | "texts in programs" | "comparison of texts that change" => "4.9.4",
        "arrays whose size changes" => "12.4.4",
        "vectors of subscripts that change" | "slices with changing subscripts" => "10.5",
        "loops without range in programs" => "11.2.2.1",
        _ => return None,
    })
}

/// Flattens a class of a library.
///
/// # Errors
/// With all findings, when the class is not found, is wrong, or uses what is not supported.
pub fn flatten(library: &Library, class: &str, options: &FlattenOptions) -> Result<FlatDae, FlattenError> {
    run(library, Some(class), options)
}

/// Flattens the given class of a text, or its only model that is not partial.
///
/// # Errors
/// As [`flatten()`]; also when no class was named and there is more than one to choose from.
pub fn flatten_text(name: &str, text: &str, class: Option<&str>) -> Result<FlatDae, FlattenError> {
    let mut library = Library::new();
    library.add_text(name, text);
    flatten_library(&library, class, &FlattenOptions::default())
}

/// Flattens the given class of a library, or the only model in the user's files that is not partial.
///
/// # Errors
/// As [`flatten_text`].
pub fn flatten_library(
    library: &Library,
    class: Option<&str>,
    options: &FlattenOptions,
) -> Result<FlatDae, FlattenError> {
    run(library, class, options)
}

/// Room for recursion over nested classes, components and expressions; only what is used is ever touched.
const STACK: usize = 1 << 30;

fn run(library: &Library, class: Option<&str>, options: &FlattenOptions) -> Result<FlatDae, FlattenError> {
    std::thread::scope(|scope| {
        let work = move || run_here(library, class, options.clone());
        match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work) {
            Ok(handle) => match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Err(_) => run_here(library, class, options.clone()),
        }
    })
}

/// So many models are named when one must be chosen.
const SHOWN_MODELS: usize = 24;

fn run_here(library: &Library, class: Option<&str>, options: FlattenOptions) -> Result<FlatDae, FlattenError> {
    let mut flattener = Flattener::new(library, options);
    let result = match class {
        Some(name) => flattener.find_top_class(name),
        None => flattener.choose_class(),
    }
    .and_then(|class| flattener.flatten_model(class));
    let mut findings = library.findings();
    findings.append(&mut flattener.findings);
    let sources = Arc::new(library.sources());
    let has_error = findings.iter().any(|finding| finding.level == Level::Error);
    match result {
        Ok(mut flat) if !has_error => {
            findings.extend(flat.check_units().into_iter().filter(|finding| !flattener.has_folded_units(finding)));
            flat.findings = findings;
            flat.sources = sources;
            Ok(flat)
        }
        _ => {
            if !has_error {
                findings.push(Finding::error("internal", Span::NONE, "the model was refused without a cause"));
            }
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
            Err(FlattenError { findings, sources, refused_values: flattener.refused_values })
        }
    }
}

impl<'a> Flattener<'a> {
    /// The class of a dotted name from the top.
    fn find_top_class(&mut self, name: &str) -> Res<ClassId> {
        let mut class = ClassId::ROOT;
        let mut so_far = String::new();
        for part in split_dotted(name.trim_start_matches('.')) {
            match self.member_class(class, Name::new(part)) {
                Some(found) => class = found?,
                None => {
                    let mut known: Vec<&'static str> = self.class_names(class);
                    if class == ClassId::ROOT {
                        known.extend(self.library.top_names().map(Name::text));
                    }
                    let place = if so_far.is_empty() { "there is no class" } else { "there is no class in" };
                    let message = if so_far.is_empty() {
                        format!("{place} `{part}`")
                    } else {
                        format!("{place} `{so_far}` named `{part}`")
                    };
                    let mut finding =
                        Finding::error("unknown-class", Span::NONE, message).with_names([name.to_owned()]);
                    let root = so_far.split('.').next().unwrap_or_default();
                    let whole = Self::whole_library(root);
                    let inside = if so_far.is_empty() { self.user_model_named(name) } else { None };
                    let inside = inside.map(|inside| format!("did you mean `{inside}`?"));
                    finding.help =
                        inside.or_else(|| Self::suggest(part, known.iter().copied())).or(whole).or_else(|| {
                            known.sort_unstable();
                            known.dedup();
                            known.truncate(12);
                            (!known.is_empty()).then(|| format!("known here: {}", known.join(", ")))
                        });
                    return Err(self.report(finding));
                }
            }
            if !so_far.is_empty() {
                so_far.push('.');
            }
            so_far.push_str(part);
        }
        Ok(class)
    }

    /// Whether a constant with a unit was folded into what a finding is about: its dimensions are not known any more.
    fn has_folded_units(&self, finding: &Finding) -> bool {
        let is_inside = |span: &Span| {
            span.file == finding.span.file && span.start >= finding.span.start && span.end <= finding.span.end
        };
        self.folded_units.iter().any(is_inside) || finding.names.iter().any(|name| self.folded_into.contains(name))
    }

    /// The models in a class of a package that is spread over files, itself included.
    fn models_in(&mut self, name: &str, depth: usize, models: &mut Vec<String>) -> Res<()> {
        let class = self.find_top_class(name)?;
        let kind = self.class(class).kind;
        let is_partial = self.class(class).ast.is_some_and(|ast| ast.is_partial);
        match kind {
            ClassKind::Model | ClassKind::Block | ClassKind::Class if !is_partial => models.push(name.to_owned()),
            ClassKind::Package if depth < 100 => {
                let _ = self.expand(class);
                let is_class = |elem: &&std::rc::Rc<class::Elem<'a>>| !elem.is_component();
                let inner: Vec<_> = self.class(class).own.iter().filter(is_class).map(|elem| elem.name).collect();
                for part in inner {
                    self.models_in(&format!("{name}.{part}"), depth + 1, models)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Full names of the models in the user's files, and the last parts of the names of classes that others use.
    fn models_of_files(&self) -> (Vec<String>, FxHashSet<&'static str>) {
        let library: &'a Library = self.library;
        let mut models: Vec<String> = Vec::new();
        let mut used = FxHashSet::default();
        for stored in library.user_files() {
            let prefix = stored
                .definition
                .within
                .as_ref()
                .map_or_else(String::new, |path| path.parts.iter().map(|part| format!("{}.", part.name)).collect());
            for class in &stored.definition.classes {
                collect_models(class, &prefix, &mut models, &mut used, 0);
            }
        }
        (models, used)
    }

    /// The model of the user's files whose name ends so, if it is one.
    fn user_model_named(&self, name: &str) -> Option<String> {
        let ending = format!(".{name}");
        let mut found = self.models_of_files().0.into_iter().filter(|model| model.ends_with(&ending));
        found.next().filter(|_| found.next().is_none())
    }

    /// The one class of the user's files that can be simulated.
    fn choose_class(&mut self) -> Res<ClassId> {
        let library: &'a Library = self.library;
        let (mut candidates, instantiable) = self.models_of_files();
        for name in library.user_classes() {
            self.models_in(name, 0, &mut candidates)?;
        }
        // A class that another one uses is a part, not the whole.
        let whole: Vec<String> = candidates
            .iter()
            .filter(|name| !instantiable.contains(name.rsplit('.').next().unwrap_or(name)))
            .cloned()
            .collect();
        match (candidates.len(), whole.len()) {
            (1, _) => self.find_top_class(&candidates[0]),
            (_, 1) => self.find_top_class(&whole[0]),
            (0, _) => Err(self.error(
                "no-model",
                Span::NONE,
                "there is no model or block that is not partial in the given files",
            )),
            _ => {
                let listed = if whole.is_empty() { candidates } else { whole };
                let shown = listed.len().min(SHOWN_MODELS);
                let more = match listed.len() - shown {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                let finding = Finding::error(
                    "which-class",
                    Span::NONE,
                    format!("there are several models to choose from: {}{more}", listed[..shown].join(", ")),
                )
                .with_help(format!(
                    "name one with `--class {0}`, or with `class = \"{0}\"` in `[model]` of a study",
                    listed[0]
                ))
                .with_names(listed);
                Err(self.report(finding))
            }
        }
    }

    /// The whole path from a class to the flat model.
    fn flatten_model(&mut self, class: ClassId) -> Res<FlatDae> {
        self.check_top(class)?;
        self.instantiate_top(class)?;
        self.collect_connections();
        self.expand_connectors();
        self.break_loops();
        self.collect_equations();
        self.close_connections();
        self.finish_attributes();
        if self.n_errors > 0 {
            return Err(Refused);
        }
        self.resolve_clocks()?;
        self.resolve_transports()?;
        self.resolve_delays()?;
        self.resolve_impure()?;
        self.start_reinitialized();
        self.bind_initial_parameters();
        self.drop_vanishing_derivatives();
        self.check_variables();
        self.determine_derivatives();
        self.check_values();
        if self.n_errors > 0 {
            return Err(Refused);
        }
        self.tell_unread_objects();
        let model = self.classes[class.0 as usize].full.to_string();
        let description = self.classes[class.0 as usize].ast.and_then(|ast| ast.description.clone());
        let experiment = self.classes[class.0 as usize].ast.map(read_experiment).unwrap_or_default();
        let out = std::mem::take(&mut self.out);
        let mut flat = FlatDae {
            model,
            description,
            graph: std::mem::take(&mut self.graph),
            variables: std::mem::take(&mut self.variables).into(),
            equations: out.equations,
            initial_equations: out.initial_equations,
            when_clauses: out.when_clauses,
            assertions: out.assertions,
            experiment,
            findings: Vec::new(),
            sources: Arc::default(),
        };
        check::drop_strings(&mut flat);
        Ok(flat)
    }
}

/// The parts of a dotted name; dots in quoted identifiers do not count.
fn split_dotted(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    for (at, letter) in name.char_indices() {
        match letter {
            '\'' => quoted = !quoted,
            '.' if !quoted => {
                parts.push(&name[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&name[start..]);
    parts
}

/// Models and blocks that can be instantiated, and the last names of all classes that others use.
fn collect_models(
    class: &ClassDef,
    prefix: &str,
    models: &mut Vec<String>,
    used: &mut FxHashSet<&'static str>,
    depth: usize,
) {
    let full = format!("{prefix}{}", class.name.name);
    let is_model = matches!(class.kind, ClassKind::Model | ClassKind::Block | ClassKind::Class);
    if is_model && !class.is_partial {
        models.push(full.clone());
    }
    let crate::syntax::ClassBody::Long { composition, .. } = &class.body else {
        if let crate::syntax::ClassBody::Short { base, .. } = &class.body
            && let Some(last) = base.parts.last()
        {
            used.insert(last.name.text());
        }
        return;
    };
    if depth > 100 {
        return;
    }
    for element in &composition.elements {
        match &element.kind {
            ElementKind::Extends { base, .. } => {
                if let Some(last) = base.parts.last() {
                    used.insert(last.name.text());
                }
            }
            ElementKind::Component { component, .. } => {
                if let Some(last) = component.type_name.parts.last() {
                    used.insert(last.name.text());
                }
            }
            ElementKind::Class { class: inner, .. } if class.kind == ClassKind::Package => {
                collect_models(inner, &format!("{full}."), models, used, depth + 1);
            }
            ElementKind::Class { class: inner, .. } => {
                collect_models(inner, &format!("{full}."), &mut Vec::new(), used, depth + 1);
            }
            ElementKind::Import(_) => {}
        }
    }
}

/// Reads `annotation(experiment(StopTime = 10, ..))`.
fn read_experiment(class: &ClassDef) -> Experiment {
    let mut experiment = Experiment::default();
    let Some(annotation) = &class.annotation else { return experiment };
    for argument in &annotation.args {
        let Argument::Modify { name, modification: Some(modification), .. } = argument else { continue };
        if name.parts.last().is_none_or(|part| part.name.text() != "experiment") {
            continue;
        }
        for argument in &modification.args {
            let Argument::Modify { name, modification: Some(modification), .. } = argument else { continue };
            let Some(ModificationValue::Expr(value)) = &modification.value else { continue };
            let (Some(part), Some(value)) = (name.parts.last(), literal(value)) else { continue };
            match part.name.text() {
                "StartTime" => experiment.start = Some(value),
                "StopTime" => experiment.stop = Some(value),
                "Interval" => experiment.interval = Some(value),
                "Tolerance" => experiment.tolerance = Some(value),
                _ => {}
            }
        }
    }
    experiment
}

/// The number an expression spells.
fn literal(expr: &Expr) -> Option<f64> {
    match &expr.kind {
        ExprKind::Real(value) => Some(*value),
        ExprKind::Integer(value) => Some(*value as f64),
        ExprKind::Parenthesized(inner) => literal(inner),
        ExprKind::Unary(UnaryOp::Minus, inner) => literal(inner).map(|value| -value),
        ExprKind::Unary(UnaryOp::Plus, inner) => literal(inner),
        _ => None,
    }
}
