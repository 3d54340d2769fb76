//! Pictures from SVG to PNG, byte for byte the same on every machine: `raster FILE.svg..` writes FILE.png beside each.
//!
//! The font is DejaVu Sans, from a crate; fonts of the machine are not looked at. Pictures of daesy carry their colours
//! as custom properties with one set for light and one for dark; the light one is put in before drawing.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels per unit of the drawing.
const SCALE: f32 = 1.5;
/// The family every text is set in.
const FAMILY: &str = "DejaVu Sans";

fn main() -> ExitCode {
    let mut is_fine = true;
    for file in std::env::args().skip(1) {
        if let Err(message) = convert(Path::new(&file)) {
            eprintln!("{file}: {message}");
            is_fine = false;
        }
    }
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn convert(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    let options = Options { font_family: FAMILY.to_owned(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(&in_light(&text), &options).map_err(|error| format!("is no picture: {error}"))?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).round() as u32, (size.height() * SCALE).round() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("is empty")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    let png = pixels.encode_png().map_err(|error| format!("cannot be encoded: {error}"))?;
    std::fs::write(file.with_extension("png"), png).map_err(|error| format!("PNG cannot be written: {error}"))
}

/// The drawing with `var(--name)` replaced by the value that `--name` is given first, without rules for dark screens,
/// and in the font at hand.
fn in_light(text: &str) -> String {
    let mut text = without_media(text);
    while let Some(start) = text.find("var(--") {
        let Some(length) = text[start..].find(')') else { break };
        let name = text[start + 4..start + length].to_owned();
        let value = value_of(&text, &name).unwrap_or_else(|| "#000".to_owned());
        text = text.replace(&format!("var({name})"), &value);
    }
    text.replace(
        "font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif;",
        "font-size: 12px; font-family: 'DejaVu Sans';",
    )
}

fn value_of(text: &str, name: &str) -> Option<String> {
    let start = text.find(&format!("{name}:"))? + name.len() + 1;
    let length = text[start..].find(';')?;
    Some(text[start..start + length].trim().to_owned())
}

/// Leaves out every `@media (..) { .. { .. } .. }`.
fn without_media(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("@media") {
        kept.push_str(&rest[..start]);
        let mut depth = 0usize;
        let mut end = rest.len();
        for (at, character) in rest[start..].char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 1 => {
                    end = start + at + 1;
                    break;
                }
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        rest = &rest[end..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::in_light;

    #[test]
    fn the_light_colours_are_put_in() {
        let text = "<style>.a { --c0: #111; } @media (dark) { .a { --c0: #eee; } .b { x: y } } .c { z: 1 }</style><p style=\"fill:var(--c0)\"/>";
        assert_eq!(in_light(text), "<style>.a { --c0: #111; }  .c { z: 1 }</style><p style=\"fill:#111\"/>");
    }
}
