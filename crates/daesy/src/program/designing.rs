//! `design`: experiments to come.

use std::path::Path;

use super::estimation::Begun;
use super::{Answer, DesignArgs, Status};
use crate::design::design;
use crate::diagnostic::Diagnostic;
use crate::report::Page;

pub(super) fn design_verb(args: &DesignArgs) -> Answer {
    let Begun { mut answer, kind, loaded } = match Begun::new("design", &args.file) {
        Ok(begun) => begun,
        Err(answer) => return *answer,
    };
    let found = match design(&loaded, args.file.common.seed) {
        Ok(found) => found,
        Err(failure) => return answer.refused(failure),
    };
    answer.keys = found.to_json(args.file.output.as_ref().map(|path| path.display().to_string()));
    answer.text = found.to_text();
    answer.diagnostics.extend(found.diagnostics.iter().cloned());
    let mut page = Page::new(&format!("Experiments for {}", found.model)).about(&loaded);
    found.add_to(&mut page);
    let mut files: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let (Some(path), Some(output), Some(study)) = (&args.save, &args.file.output, &loaded.study) {
        let folder = |path: &Path| std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let name = output.file_name().map(|name| name.to_string_lossy().into_owned());
        if folder(path) != folder(output)
            || args.file.caller.source.is_none() && folder(path) != folder(&args.file.file)
        {
            let diagnostic = Diagnostic::error("save", "the study and its input are saved beside the original")
                .with_help("its paths are relative to its folder");
            return answer.fail(Status::Usage, vec![diagnostic]);
        }
        files.push((path, found.study_text(study, &name.unwrap_or_default()).into_bytes()));
    }
    answer.write_files(&args.file, kind, found.table(), &page, files)
}
