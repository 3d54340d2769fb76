//! How many variables a model has at least, before any of them is made.
//!
//! ```text
//! n(type) = 1,     n(class) = sum of n over its components that are always there, once each
//! ```
//!
//! A component counts if it is neither conditional nor outer, cannot be replaced and is no array. Every class is looked at
//! once, so that a chain of classes that hold each other twice, 2^n variables in n classes, is refused at once and not
//! when the memory is full.

use daesy_graph::Span;
use rustc_hash::FxHashMap;

use super::class::ElemKind;
use super::{ClassId, Flattener, NodeId, Res};

impl Flattener<'_> {
    /// Refuses a class with more variables than there may be.
    pub(crate) fn check_least_size(&mut self, class: ClassId) -> Res<()> {
        // What cannot be found here is told where it is made.
        let (n_findings, n_errors, not_yet_known) = (self.findings.len(), self.n_errors, self.not_yet_known);
        let reported = self.reported.clone();
        let n = self.least_size(class, 0, &mut FxHashMap::default());
        self.findings.truncate(n_findings);
        (self.n_errors, self.not_yet_known, self.reported) = (n_errors, not_yet_known, reported);
        if n > self.options.max_scalars {
            let span = self.class(class).span();
            return Err(self.limit("the number of scalar variables", self.options.max_scalars, span));
        }
        self.check_memory(n.saturating_mul(size_of::<daesy_graph::Variable>()), Span::NONE)
    }

    /// `n(class)`, zero for a class that is being looked at; `known` has those that were.
    fn least_size(&mut self, class: ClassId, depth: usize, known: &mut FxHashMap<ClassId, usize>) -> usize {
        if let Some(&n) = known.get(&class) {
            return n;
        }
        known.insert(class, 0);
        if self.class(class).core.is_primitive() {
            known.insert(class, 1);
            return 1;
        }
        if depth >= self.options.max_depth || self.expand(class).is_err() {
            return 0;
        }
        let mut n = 0usize;
        for elem in self.class(class).elements.clone() {
            let ElemKind::Component(decl) = elem.kind else { continue };
            let is_sure = decl.condition.is_none()
                && !elem.prefixes.is_outer
                && !elem.prefixes.is_replaceable
                && decl.subscripts.is_empty()
                && decl.type_subscripts.is_empty();
            if !is_sure {
                continue;
            }
            let Ok(found) = self.resolve_class(&decl.type_name, elem.owner, NodeId::NONE) else { continue };
            let Ok(used) = self.class_use(found) else { continue };
            if used.items.iter().all(|item| item.dims.is_empty()) {
                n = n.saturating_add(self.least_size(used.class, depth + 1, known));
            }
        }
        known.insert(class, n);
        n
    }
}
