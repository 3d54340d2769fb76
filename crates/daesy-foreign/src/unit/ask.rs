//! Questions to a unit and its answers, many at once where its processes can.

use std::collections::hash_map::Entry;

use daesy_graph::foreign::ForeignFailure;
use rustc_hash::FxHashMap;

use super::{MOST_AT_ONCE, MOST_REMEMBERED, Point, Question, Remembered, Slot, Unit, Worker, garbled, lock};
use crate::error::ForeignError;
use crate::message::{Answer, Frame, part, verb};

impl Unit {
    pub(super) fn remember(&self, one: Remembered) {
        let mut remembered = lock(&self.remembered);
        if remembered.len() == MOST_REMEMBERED {
            remembered.remove(0);
        }
        remembered.push(one);
    }

    /// Answers to questions, each asked once: lanes that are there to fill up vectors ask what others ask.
    pub(crate) fn answers(&self, questions: &[Question]) -> Vec<Result<Vec<f64>, ForeignFailure>> {
        if let [one] = questions {
            return self.answers_of_different(std::slice::from_ref(one));
        }
        let mut known: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
        let mut different: Vec<Question> = Vec::with_capacity(questions.len());
        let mut place = |question: &Question| match known.entry(question.key()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                different.push(question.clone());
                *entry.insert(different.len() - 1)
            }
        };
        let places: Vec<usize> = questions.iter().map(&mut place).collect();
        let answers = self.answers_of_different(&different);
        places.into_iter().map(|at| answers[at].clone()).collect()
    }

    /// Answers to questions, in as few messages as instances allow: those that an instance is at hand for go together,
    /// and wait until one has been brought where it is needed.
    pub(super) fn answers_of_different(&self, questions: &[Question]) -> Vec<Result<Vec<f64>, ForeignFailure>> {
        let mut answers = Vec::with_capacity(questions.len());
        let mut most = MOST_AT_ONCE;
        while let Some(first) = questions.get(answers.len()) {
            let rest = &questions[answers.len()..];
            let rest = &rest[..rest.len().min(most)];
            let point = self.arguments.point(first.arguments());
            let told = self.at(&point, |unit, worker, at| unit.ask_together(worker, at, rest));
            match told {
                Ok(told) => answers.extend(told.into_iter().zip(rest).map(|(one, question)| {
                    one.map(|values| self.since_event(question, values)).map_err(|error| self.note(&error))
                })),
                // Which of them took the worker down shows when they are asked one by one.
                Err(_) if rest.len() > 1 => most = 1,
                Err(failure) => answers.push(Err(failure)),
            }
        }
        answers
    }

    /// Indicators relative to what they were after the event that led to the mode; other values as they are.
    fn since_event(&self, question: &Question, mut values: Vec<f64>) -> Vec<f64> {
        if let Question::Evaluate { part: part::INDICATORS, arguments } = question {
            let modes = lock(&self.modes);
            let mode = (self.arguments.point(arguments).mode as usize).checked_sub(1).and_then(|at| modes.list.get(at));
            let domains = mode.map_or(&[][..], |mode| &mode.is_positive);
            for (value, _) in values.iter_mut().zip(domains).filter(|(_, is_positive)| !**is_positive) {
                // Zero belongs to the domain of negative ones.
                *value = if *value == 0.0 { f64::MIN_POSITIVE } else { -*value };
            }
        }
        values
    }

    /// Asks the first questions for which the worker has instances, that of the first being known.
    fn ask_together(
        &self,
        worker: &mut Worker,
        first: usize,
        questions: &[Question],
    ) -> Result<Vec<Result<Vec<f64>, ForeignError>>, ForeignError> {
        let mut frames = Vec::new();
        for question in questions {
            let point = self.arguments.point(question.arguments());
            let has_it = |slot: &Slot| slot.parameters == point.parameters && slot.mode == point.mode;
            let at = if frames.is_empty() { Some(first) } else { worker.slots.iter().position(has_it) };
            let Some(at) = at else { break };
            worker.slots[at].last_use = worker.clock;
            let slot = worker.slots[at].number;
            let request = |verb, part| self.request(verb, slot, part, point.time, point.states, point.inputs);
            frames.push(match question {
                Question::Evaluate { part, .. } => request(verb::EVALUATE, Some(*part)),
                Question::Directional { knowns, seed, .. } => request(verb::TANGENT, None).wholes(knowns).reals(seed),
            });
        }
        let Some(one) = questions.first() else { return Ok(Vec::new()) };
        let point = self.arguments.point(one.arguments());
        if let [frame] = frames.as_slice() {
            return match self.asked(worker, frame, one.doing(), &point) {
                Err(error @ (ForeignError::Crashed { .. } | ForeignError::Hung { .. })) => Err(error),
                told => {
                    self.leave_broken(worker, &told, &point);
                    Ok(vec![told])
                }
            };
        }
        let place = || self.place(&point);
        let many = Frame::default().byte(verb::MANY).frames(&frames);
        let told = match worker.process.ask(&many, one.doing(), &place)? {
            Answer::Many(told) if told.len() == frames.len() => told,
            Answer::Error(error) => return Err(error),
            _ => return Err(garbled()),
        };
        let mut answers = Vec::with_capacity(told.len());
        for (answer, question) in told.into_iter().zip(questions) {
            let point = self.arguments.point(question.arguments());
            let answer = self.judged(answer, question.doing(), &point);
            self.leave_broken(worker, &answer, &point);
            let is_broken = answer.is_err();
            answers.push(answer);
            if is_broken {
                // What came after may be of the same instance: it is asked again.
                break;
            }
        }
        Ok(answers)
    }

    /// What an instance is after an error nobody knows.
    pub(super) fn leave_broken(&self, worker: &mut Worker, answer: &Result<Vec<f64>, ForeignError>, point: &Point<'_>) {
        if matches!(answer, Err(ForeignError::Status { .. } | ForeignError::Range { .. })) {
            worker.slots.retain(|slot| slot.parameters != point.parameters || slot.mode != point.mode);
        }
    }
}
