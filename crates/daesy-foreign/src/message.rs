//! What the program and its workers say to each other: frames of a length and that many bytes, in little endian.
//!
//! Every answer is a list of numbers, or the reason why there is none.

use std::io::{Read, Write};

use crate::description::{Block, Kind, ScalarType, Version};
use crate::error::ForeignError;
use crate::native::Binary;

/// Longest frame.
const MAX_FRAME: usize = 1 << 30;

/// Bytes being written.
#[derive(Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.bytes.push(value);
        self
    }

    pub(crate) fn flag(self, value: bool) -> Self {
        self.byte(u8::from(value))
    }

    pub(crate) fn whole(mut self, value: u64) -> Self {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn real(mut self, value: f64) -> Self {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn optional(self, value: Option<f64>) -> Self {
        self.flag(value.is_some()).real(value.unwrap_or(0.0))
    }

    pub(crate) fn reals(mut self, values: &[f64]) -> Self {
        self = self.whole(values.len() as u64);
        values.iter().for_each(|value| self.bytes.extend(value.to_le_bytes()));
        self
    }

    pub(crate) fn wholes(mut self, values: &[u32]) -> Self {
        self = self.whole(values.len() as u64);
        values.iter().for_each(|value| self.bytes.extend(value.to_le_bytes()));
        self
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self = self.whole(text.len() as u64);
        self.bytes.extend(text.as_bytes());
        self
    }

    pub(crate) fn block(self, block: Block) -> Self {
        self.byte(block.scalar_type as u8).whole(u64::from(block.reference)).whole(u64::from(block.size))
    }

    pub(crate) fn blocks(self, blocks: &[Block]) -> Self {
        blocks.iter().fold(self.whole(blocks.len() as u64), |frame, &block| frame.block(block))
    }

    /// Frames within a frame.
    pub(crate) fn frames(mut self, frames: &[Self]) -> Self {
        self = self.whole(frames.len() as u64);
        for frame in frames {
            self = self.whole(frame.bytes.len() as u64);
            self.bytes.extend(&frame.bytes);
        }
        self
    }

    pub(crate) fn send(&self, to: &mut impl Write) -> std::io::Result<()> {
        let mut all = Vec::with_capacity(self.bytes.len() + 8);
        all.extend((self.bytes.len() as u64).to_le_bytes());
        all.extend(&self.bytes);
        to.write_all(&all)?;
        to.flush()
    }
}

/// Bytes being read.
pub(crate) struct Parcel {
    bytes: Vec<u8>,
    at: usize,
}

impl Parcel {
    /// The next frame; `None` at the end.
    pub(crate) fn receive(from: &mut impl Read) -> Option<Self> {
        let mut length = [0; 8];
        from.read_exact(&mut length).ok()?;
        let length = usize::try_from(u64::from_le_bytes(length)).ok().filter(|&length| length <= MAX_FRAME)?;
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).ok()?;
        Some(Self { bytes, at: 0 })
    }

    /// A frame that nobody sent.
    pub(crate) fn of(frame: &Frame) -> Self {
        Self { bytes: frame.bytes.clone(), at: 0 }
    }

    fn take(&mut self, n: usize) -> Option<&[u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(part)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        Some(self.byte()? != 0)
    }

    pub(crate) fn whole(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn real(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn optional(&mut self) -> Option<Option<f64>> {
        let is_there = self.flag()?;
        let value = self.real()?;
        Some(is_there.then_some(value))
    }

    fn count(&mut self, size: usize) -> Option<usize> {
        let count = usize::try_from(self.whole()?).ok()?;
        (count.checked_mul(size)? <= self.bytes.len() - self.at).then_some(count)
    }

    pub(crate) fn reals(&mut self) -> Option<Vec<f64>> {
        let count = self.count(8)?;
        let bytes = self.take(8 * count)?;
        Some(bytes.as_chunks().0.iter().map(|&one| f64::from_le_bytes(one)).collect())
    }

    pub(crate) fn wholes(&mut self) -> Option<Vec<u32>> {
        let count = self.count(4)?;
        let bytes = self.take(4 * count)?;
        Some(bytes.as_chunks().0.iter().map(|&one| u32::from_le_bytes(one)).collect())
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let count = self.count(1)?;
        Some(String::from_utf8_lossy(self.take(count)?).into_owned())
    }

    /// Frames within a frame.
    pub(crate) fn parcels(&mut self) -> Option<Vec<Self>> {
        let count = self.count(8)?;
        let mut parcels = Vec::with_capacity(count);
        for _ in 0..count {
            let length = self.count(1)?;
            parcels.push(Self { bytes: self.take(length)?.to_vec(), at: 0 });
        }
        Some(parcels)
    }

    pub(crate) fn block(&mut self) -> Option<Block> {
        Some(Block {
            scalar_type: ScalarType::from_number(self.byte()?)?,
            reference: self.whole()? as u32,
            size: self.whole()? as u32,
        })
    }

    pub(crate) fn blocks(&mut self) -> Option<Vec<Block>> {
        let count = self.count(17)?;
        (0..count).map(|_| self.block()).collect()
    }
}

/// What a worker is asked first: which library, and which values belong to which list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opening {
    pub(crate) binary: Binary,
    /// The folder to remove if the program is gone.
    pub(crate) folder: String,
    pub(crate) n_states: usize,
    pub(crate) n_indicators: usize,
    pub(crate) inputs: Vec<Block>,
    /// By block of inputs: whether it may change at events only.
    pub(crate) is_discrete: Vec<bool>,
    pub(crate) values: Vec<Block>,
    pub(crate) derivatives: Vec<u32>,
}

/// First bytes of requests.
pub(crate) mod verb {
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const BEGIN: u8 = 2;
    pub(crate) const EVALUATE: u8 = 3;
    pub(crate) const TANGENT: u8 = 4;
    pub(crate) const EVENT: u8 = 5;
    pub(crate) const SAVE: u8 = 6;
    pub(crate) const RESTORE: u8 = 7;
    pub(crate) const STEP: u8 = 8;
    pub(crate) const COMPLETED: u8 = 9;
    pub(crate) const CLOSE: u8 = 10;
    /// Sets inputs between steps of the unit, and reads.
    pub(crate) const LOOK: u8 = 12;
    /// Several of the others in one message.
    pub(crate) const MANY: u8 = 11;
}

/// What is evaluated.
pub(crate) mod part {
    pub(crate) const DERIVATIVES: u8 = 0;
    pub(crate) const INDICATORS: u8 = 1;
    pub(crate) const VALUES: u8 = 2;
}

impl Opening {
    pub(crate) fn frame(&self) -> Frame {
        let binary = &self.binary;
        let mut frame = Frame::default()
            .byte(verb::OPEN)
            .text(&binary.library)
            .flag(binary.version == Version::Three)
            .flag(binary.kind == Kind::CoSimulation)
            .text(&binary.name)
            .text(&binary.token)
            .text(&binary.resources)
            .flag(binary.needs_completed_steps)
            .text(&self.folder)
            .whole(self.n_states as u64)
            .whole(self.n_indicators as u64)
            .blocks(&self.inputs);
        for &is_discrete in &self.is_discrete {
            frame = frame.flag(is_discrete);
        }
        frame.blocks(&self.values).wholes(&self.derivatives)
    }

    pub(crate) fn read(from: &mut Parcel) -> Option<Self> {
        let library = from.text()?;
        let version = if from.flag()? { Version::Three } else { Version::Two };
        let kind = if from.flag()? { Kind::CoSimulation } else { Kind::ModelExchange };
        let (name, token, resources) = (from.text()?, from.text()?, from.text()?);
        let needs_completed_steps = from.flag()?;
        let folder = from.text()?;
        let (n_states, n_indicators) = (from.whole()? as usize, from.whole()? as usize);
        let inputs = from.blocks()?;
        let is_discrete = inputs.iter().map(|_| from.flag()).collect::<Option<Vec<bool>>>()?;
        let (values, derivatives) = (from.blocks()?, from.wholes()?);
        let binary = Binary { library, version, kind, name, token, resources, needs_completed_steps };
        Some(Self { binary, folder, n_states, n_indicators, inputs, is_discrete, values, derivatives })
    }
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    Numbers(Vec<f64>),
    /// There is no value at this point.
    Discard(String),
    Error(ForeignError),
    /// Those to several questions.
    Many(Vec<Answer>),
}

impl Answer {
    pub(crate) fn frame(&self) -> Frame {
        let frame = Frame::default();
        match self {
            Self::Many(answers) => {
                frame.byte(6).frames(&answers.iter().map(|answer| answer.frame()).collect::<Vec<_>>())
            }
            Self::Numbers(values) => frame.byte(0).reals(values),
            Self::Discard(log) => frame.byte(1).text(log),
            Self::Error(error) => {
                let (tag, first, second, third) = match error {
                    ForeignError::Library { reason } => (2, reason.clone(), String::new(), String::new()),
                    ForeignError::Missing { function } => (3, function.clone(), String::new(), String::new()),
                    ForeignError::NoInstance { log } => (4, log.clone(), String::new(), String::new()),
                    ForeignError::Status { function, status, log, .. } => {
                        (5, function.clone(), status.clone(), log.clone())
                    }
                    ForeignError::Range { value, least, most, .. } => {
                        (7, value.to_string(), least.to_string(), most.to_string())
                    }
                    other => (2, other.to_string(), String::new(), String::new()),
                };
                frame.byte(tag).text(&first).text(&second).text(&third)
            }
        }
    }

    pub(crate) fn read(from: &mut Parcel) -> Option<Self> {
        let tag = from.byte()?;
        if tag == 0 {
            return Some(Self::Numbers(from.reals()?));
        }
        if tag == 6 {
            return from.parcels()?.iter_mut().map(Self::read).collect::<Option<Vec<Self>>>().map(Self::Many);
        }
        let first = from.text()?;
        if tag == 1 {
            return Some(Self::Discard(first));
        }
        let (second, log) = (from.text()?, from.text()?);
        Some(Self::Error(match tag {
            2 => ForeignError::Library { reason: first },
            3 => ForeignError::Missing { function: first },
            4 => ForeignError::NoInstance { log: first },
            5 => ForeignError::Status { function: first, status: second, place: String::new(), log },
            7 => ForeignError::Range {
                value: first.parse().ok()?,
                least: second.parse().ok()?,
                most: log.parse().ok()?,
                place: String::new(),
            },
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let opening = Opening {
            binary: Binary {
                library: "a.so".to_owned(),
                version: Version::Three,
                kind: Kind::CoSimulation,
                name: "n".to_owned(),
                token: "t".to_owned(),
                resources: "r".to_owned(),
                needs_completed_steps: true,
            },
            folder: "f".to_owned(),
            n_states: 3,
            n_indicators: 2,
            inputs: vec![Block { scalar_type: ScalarType::Boolean, reference: 7, size: 1 }],
            is_discrete: vec![true],
            values: vec![Block { scalar_type: ScalarType::Float64, reference: 8, size: 4 }],
            derivatives: vec![1, 2, 3],
        };
        let mut bytes = Vec::new();
        opening.frame().send(&mut bytes).expect("memory takes all");
        let mut parcel = Parcel::receive(&mut bytes.as_slice()).expect("a frame");
        assert_eq!(parcel.byte(), Some(verb::OPEN));
        assert_eq!(Opening::read(&mut parcel), Some(opening));
        for answer in [
            Answer::Numbers(vec![1.5, f64::INFINITY]),
            Answer::Discard("no".to_owned()),
            Answer::Many(vec![Answer::Numbers(vec![2.0]), Answer::Discard("no".to_owned()), Answer::Many(Vec::new())]),
            Answer::Error(ForeignError::Missing { function: "f".to_owned() }),
            Answer::Error(ForeignError::Range { value: 3e9, least: -7.0, most: 9.0, place: String::new() }),
        ] {
            let mut bytes = Vec::new();
            answer.frame().send(&mut bytes).expect("memory takes all");
            let mut parcel = Parcel::receive(&mut bytes.as_slice()).expect("a frame");
            assert_eq!(Answer::read(&mut parcel), Some(answer));
        }
        // A list that says it is longer than its frame.
        let mut bytes = Vec::new();
        Frame::default().whole(u64::MAX).send(&mut bytes).expect("memory takes all");
        assert!(Parcel::receive(&mut bytes.as_slice()).expect("a frame").reals().is_none());
    }
}
