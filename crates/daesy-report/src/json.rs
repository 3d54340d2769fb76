//! Results of lower crates as objects of the JSON documents.

use daesy_structure::linear_verdict::LinearVerdict;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::stochastic::{Role, Stochastic};
use daesy_transfer::Event;
use serde_json::{Map, Value, json};

/// What has an object in the documents.
pub trait ToJson {
    /// The object.
    fn to_json(&self) -> Value;
}

impl ToJson for Diagnostic {
    fn to_json(&self) -> Value {
        json!({
            "level": self.level.word(),
            "code": self.code,
            "message": self.message,
            "file": self.place.as_ref().map(|place| &place.file),
            "line": self.place.as_ref().map(|place| place.line),
            "column": self.place.as_ref().map(|place| place.column),
            "names": self.names,
            "help": self.help,
        })
    }
}

impl ToJson for Event {
    fn to_json(&self) -> Value {
        let jumps: Map<String, Value> =
            self.jumps.iter().map(|jump| (jump.name.clone(), json!([jump.before, jump.after]))).collect();
        let impulses: Map<String, Value> =
            self.impulses.iter().map(|impulse| (impulse.name.clone(), json!(impulse.coefficients))).collect();
        json!({
            "time": self.time, "kind": self.kind.word(), "continuous": self.continuous, "jumps": jumps, "impulses": impulses,
            "relations": self.relations,
        })
    }
}

impl ToJson for LinearVerdict {
    fn to_json(&self) -> Value {
        json!({
            "strangeness_index": self.strangeness_index,
            "differentiation_index": self.differentiation_index,
            "d": self.d,
            "a": self.a,
            "v": self.v,
            "agrees_with_structure": self.agrees_with_structure,
            "redundant_equations": self.redundant_equations,
            "free_variables": self.free_variables,
            "rank_decisions": self.rank_decisions.iter().map(|decision| json!({
                "what": decision.what, "rank": decision.rank, "gap": decision.gap,
            })).collect::<Vec<_>>(),
        })
    }
}

impl ToJson for Stochastic {
    fn to_json(&self) -> Value {
        let signals: Vec<Value> = self
            .signals
            .iter()
            .map(|signal| {
                json!({
                    "name": signal.name,
                    "role": match signal.role { Role::Measured => "measured", Role::Estimated => "estimated" },
                    "finite_variance": signal.finite_variance,
                    "disturbance": signal.disturbance,
                    "pole_excess": signal.pole_excess,
                    "pole_excess_needed": signal.pole_excess_needed,
                    "presampling_order": signal.presampling_order,
                    "at": signal.at.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>(),
                })
            })
            .collect();
        json!({ "well_posed": self.is_well_posed, "signals": signals })
    }
}
