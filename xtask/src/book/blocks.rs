//! Fenced blocks of a chapter and what their info strings ask for.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// What is to be done with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Only shown.
    Show,
    /// Run by the shell; the exit status must fit.
    Run(Expected),
    /// Compared with what the shell block above printed.
    CompareOutput,
    /// Sent through `daesy flatten`.
    Flatten,
}

/// The exit status a shell block must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Zero.
    Success,
    /// Anything but zero.
    Failure,
    /// This one.
    Status(i32),
}

impl Expected {
    /// Whether a status (`None`: ended by a signal) is the expected one.
    pub fn is_met_by(self, status: Option<i32>) -> bool {
        match self {
            Self::Success => status == Some(0),
            Self::Failure => status.is_some_and(|status| status != 0),
            Self::Status(wanted) => status == Some(wanted),
        }
    }
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the opening fence, counted from one.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// What to do with it.
    pub action: Action,
    /// The file it is to be written to first.
    pub file: Option<String>,
}

/// A block whose info string is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// Line of the opening fence, counted from one.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// Reads the fenced blocks of a chapter.
pub fn blocks_of(text: &str) -> Vec<Result<Block, BadBlock>> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String, String)> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let line = text[..range.start].matches('\n').count() + 1;
                open = Some((line, info.to_string(), String::new()));
            }
            Event::Text(part) => {
                if let Some((_, _, body)) = &mut open {
                    body.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((line, info, body)) = open.take() {
                    blocks.push(read_info(line, &info, body));
                }
            }
            _ => {}
        }
    }
    blocks
}

fn read_info(line: usize, info: &str, text: String) -> Result<Block, BadBlock> {
    let refuse = |reason: String| Err(BadBlock { line, reason });
    let mut words = info.split(',').map(str::trim);
    let language = words.next().unwrap_or_default();
    if ["bash", "shell", "console", "zsh"].contains(&language) {
        return refuse(format!("write `sh` instead of `{language}`, so that the commands are run"));
    }
    let mut action = if language == "sh" { Action::Run(Expected::Success) } else { Action::Show };
    let mut file = None;
    for word in words {
        let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        match (language, key, value) {
            ("sh", "fails", None) => action = Action::Run(Expected::Failure),
            ("sh", "fails", Some(status)) => match status.parse() {
                Ok(status) => action = Action::Run(Expected::Status(status)),
                Err(_) => return refuse(format!("`{status}` is no exit status")),
            },
            ("text", "output", None) => action = Action::CompareOutput,
            ("modelica", "check", None) => action = Action::Flatten,
            (other, "file", Some(name)) if other != "sh" => {
                if name.is_empty() || name.contains("..") || name.starts_with('/') {
                    return refuse(format!("`{name}` is no file in the chapter's folder"));
                }
                file = Some(name.to_owned());
            }
            _ => return refuse(format!("`{word}` means nothing on a block of `{language}`")),
        }
    }
    Ok(Block { line, text, action, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_strings_say_what_to_do() {
        let text = "# A\n\n```sh\na\n```\n\n```sh,fails\nb\n```\n\n```sh,fails=2\nc\n```\n\n```text,output\nd\n```\n\n\
                    ```modelica,check,file=x.mo\ne\n```\n\n```text\nf\n```\n";
        let blocks: Vec<Block> = blocks_of(text).into_iter().map(|block| block.expect("all are good")).collect();
        let actions: Vec<&Action> = blocks.iter().map(|block| &block.action).collect();
        assert_eq!(
            actions,
            [
                &Action::Run(Expected::Success),
                &Action::Run(Expected::Failure),
                &Action::Run(Expected::Status(2)),
                &Action::CompareOutput,
                &Action::Flatten,
                &Action::Show,
            ]
        );
        assert_eq!(blocks[0].line, 3);
        assert_eq!(blocks[4].file.as_deref(), Some("x.mo"));
        assert_eq!(blocks[4].text, "e\n");
    }

    #[test]
    fn a_mistyped_info_string_is_an_error_not_a_skipped_check() {
        for info in ["sh,fail", "sh,fails=x", "bash", "console", "modelica,chek", "toml,file=../a", "text,output=1"] {
            let blocks = blocks_of(&format!("```{info}\nx\n```\n"));
            assert!(blocks[0].is_err(), "{info}");
        }
    }

    #[test]
    fn statuses_are_compared() {
        assert!(Expected::Success.is_met_by(Some(0)));
        assert!(!Expected::Success.is_met_by(None));
        assert!(Expected::Failure.is_met_by(Some(1)));
        assert!(!Expected::Failure.is_met_by(Some(0)));
        assert!(!Expected::Failure.is_met_by(None));
        assert!(Expected::Status(2).is_met_by(Some(2)));
        assert!(!Expected::Status(2).is_met_by(Some(1)));
    }
}
