//! Data files as measuring software writes them: read, or refused with the key that reads them.

use daesy_fmu::archive::{Entry, pack};

use crate::session::{Run, Session};

const MODEL: &str = "model M
  parameter Real k = 2;
  input Real u;
  Real x(start = 1, fixed = true);
equation
  der(x) = -k*x + u;
end M;
";

const ROWS: [(f64, f64, f64); 6] =
    [(0.0, 0.0, 1.0), (0.1, 0.5, 0.82), (0.2, 0.5, 0.71), (0.3, 1.0, 0.63), (0.4, 1.0, 0.6), (0.5, 1.0, 0.58)];

/// A study of the data file, with more lines for `[data]`.
fn study(file: &str, data: &str) -> String {
    format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.0, min = 0.1 }}\n[inputs]\nu = {{ column = \"u\" }}\n\
         [measurements]\nx = {{ column = \"x\", std = 0.01 }}\n[data]\nfile = \"{file}\"\n{data}"
    )
}

/// The rows as text, by the way a row is written.
fn text(header: &str, row: impl Fn(f64, f64, f64) -> String) -> String {
    ROWS.iter().fold(header.to_owned(), |text, &(t, u, x)| text + &row(t, u, x) + "\n")
}

fn comma(number: f64) -> String {
    number.to_string().replace('.', ",")
}

fn identify(bytes: &[u8], data: &str) -> Run {
    let session = Session::with_model(MODEL).with("study.toml", &study("data.csv", data));
    std::fs::write(session.path("data.csv"), bytes).unwrap();
    session.run(&["identify", "study.toml", "--json"])
}

fn estimate(run: &Run) -> f64 {
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()["parameters"][0]["estimate"].as_f64().unwrap()
}

#[test]
fn every_way_to_write_the_same_data_gives_the_same_estimate() {
    let plain = text("t,u,x\n", |t, u, x| format!("{t},{u},{x}"));
    let truth = estimate(&identify(plain.as_bytes(), ""));
    let same = |bytes: &[u8], data: &str| {
        let run = identify(bytes, data);
        assert!((estimate(&run) - truth).abs() < 1e-9 * truth, "{data}: {}", run.stderr);
    };
    let german = text("t;u;x\n", |t, u, x| format!("{};{};{}", comma(t), comma(u), comma(x)));
    same(german.as_bytes(), "decimal = \",\"\n");
    same(german.replace(';', "\t").as_bytes(), "decimal = \",\"\nseparator = \"\\t\"\n");
    same(plain.replace(',', "\t").as_bytes(), "");
    same(plain.replace(',', "   ").as_bytes(), "separator = \" \"\n");
    let stamped = text("t,u,x\n", |t, u, x| format!("2024-02-29T23:59:{}Z,{u},{x}", 59.0 + t));
    same(stamped.as_bytes(), "");
    let later = text("t,u,x\n", |t, u, x| format!("{:.1},{u},{x}", 100.0 + t));
    same(later.as_bytes(), "origin = 100\n");
    let milliseconds = text("t,u,x\n", |t, u, x| format!("{:.0},{u},{x}", 1000.0 * t));
    same(milliseconds.as_bytes(), "time_unit = \"ms\"\n");
}

#[test]
fn encodings_comments_units_and_words_are_read() {
    let plain = text("t,u,x,T in °C\n", |t, u, x| format!("{t},{u},{x},ok"));
    let truth = estimate(&identify(text("t,u,x\n", |t, u, x| format!("{t},{u},{x}")).as_bytes(), ""));
    let same = |bytes: &[u8], data: &str| {
        let found = estimate(&identify(bytes, data));
        assert!((found - truth).abs() < 1e-9 * truth, "{data}");
    };
    let latin: Vec<u8> = plain.chars().map(|character| character as u8).collect();
    same(&latin, "encoding = \"latin-1\"\n");
    let refused = identify(&latin, "");
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("encoding = \"latin-1\""), "{}", refused.stderr);
    let wide: Vec<u8> = plain.encode_utf16().flat_map(u16::to_le_bytes).collect();
    same(&[&[0xff, 0xfe][..], &wide].concat(), "");
    same(&wide, "encoding = \"utf-16le\"\n");
    assert!(identify(&wide, "").stderr.contains("encoding = \"utf-16le\""));
    same(format!("\u{feff}{}", plain.replace('\n', "\r\n")).as_bytes(), "");
    same(format!("# Logger 7\n# 2024\n{plain}\n\n").as_bytes(), "");
    same(format!("Logger 7;x\n{plain}").as_bytes(), "skip = 1\n");
    same(plain.replacen('\n', "\ns,V,m,degC\n", 1).as_bytes(), "");
}

#[test]
fn what_cannot_be_read_is_refused_with_the_key_that_reads_it() {
    let line = |bytes: &str, data: &str| {
        let run = identify(bytes.as_bytes(), data);
        assert_eq!(run.status, 1, "{bytes}");
        let findings = run.json()["findings"].as_array().unwrap().clone();
        assert_eq!(findings.len(), 1, "one line, not many: {}", run.stderr);
        let finding = &findings[0];
        format!("{}:{} {} {}", finding["line"], finding["column"], finding["message"], finding["help"])
    };
    let german = text("t;u;x\n", |t, u, x| format!("{};{};{}", t, u, comma(x)));
    assert!(line(&german, "").contains("decimal = \\\",\\\""), "{}", line(&german, ""));
    let absent = text("t,u,x\n", |t, u, x| if t == 0.2 { format!("{t},{u},N/A") } else { format!("{t},{u},{x}") });
    let told = line(&absent, "");
    assert!(told.starts_with("4:9 ") && told.contains("missing = [\\\"N/A\\\"]"), "{told}");
    assert_eq!(identify(absent.as_bytes(), "missing = [\"N/A\"]\n").status, 0);
    let infinite = text("t,u,x\n", |t, u, x| if t == 0.3 { format!("{t},inf,{x}") } else { format!("{t},{u},{x}") });
    let told = line(&infinite, "");
    assert!(told.starts_with("5:5 ") && told.contains("`u`") && told.contains("infinite"), "{told}");
    let doubled = text("t,u,x,u\n", |t, u, x| format!("{t},{u},{x},{u}"));
    let told = line(&doubled, "");
    assert!(told.contains("2 and 4") && told.contains("`u`"), "{told}");
    let again = text("t,u,x\n", |t, u, x| format!("{},{u},{x}", if t == 0.4 { 0.3 } else { t }));
    let told = line(&again, "");
    assert!(told.starts_with("6:1 ") && told.contains("line 5 and line 6") && !told.contains("sort"), "{told}");
    let back = text("t,u,x\n", |t, u, x| format!("{},{u},{x}", if t == 0.4 { 0.05 } else { t }));
    assert!(line(&back, "").contains("sort the rows"), "{}", line(&back, ""));
    let minutes = text("t,u,x\nmin,V,m\n", |t, u, x| format!("{t},{u},{x}"));
    assert!(line(&minutes, "").contains("time_unit = \\\"min\\\""), "{}", line(&minutes, ""));
    let dates = text("t,u,x\n", |t, u, x| format!("01.03.2024 12:00:{:02},{u},{x}", 10.0 * t));
    assert!(line(&dates, "").contains("time_format = \\\"%d.%m.%Y %H:%M:%S\\\""), "{}", line(&dates, ""));
    let bare = text("", |t, u, x| format!("{t},{u},{x}"));
    assert!(line(&bare, "").contains("no header"), "{}", line(&bare, ""));
}

#[test]
fn a_table_that_was_written_as_parquet_is_read_as_data() {
    let session = Session::with_model(MODEL)
        .with("data.csv", &text("t,u,x\n", |t, u, x| format!("{t},{u},{x}")))
        .with("again.toml", &study("table.parquet", "").replace("\"u\" }", "\"u\", hold = \"cubic\" }"));
    let smooth = std::fs::read_to_string(session.path("again.toml")).unwrap().replace("table.parquet", "data.csv");
    let session = session.with("study.toml", &smooth);
    let run = session.run(&["simulate", "study.toml", "-o", "table.parquet", "--set", "k=2"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let run = session.run(&["identify", "again.toml", "--json"]);
    assert!((estimate(&run) - 2.0).abs() < 1e-3, "{}", run.stdout);
    std::fs::write(session.path("table.parquet"), "PAR1 and no more").unwrap();
    let run = session.run(&["identify", "again.toml"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("not a whole Parquet file"), "{}", run.stderr);
}

#[test]
fn a_simulation_reports_at_the_times_of_the_data() {
    let session = Session::with_model(MODEL)
        .with("study.toml", &study("data.csv", ""))
        .with("data.csv", "t,u,x\n0,1,1\n0.0398,1,1\n0.1,0,1\n0.25,0,1\n");
    let run = session.run(&["simulate", "study.toml"]);
    let mut times: Vec<&str> = run.stdout.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    times.dedup();
    assert_eq!(times, ["0", "0.0398", "0.1", "0.25"], "{}", run.stderr);
}

#[test]
fn times_of_an_even_grid_are_short_decimals() {
    let session =
        Session::with_model(MODEL).with("study.toml", "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 19.9\n");
    let run = session.run(&["simulate", "study.toml", "--quiet"]);
    let times = run.stdout.lines().skip(1).map(|line| line.split(',').next().unwrap());
    assert!(times.clone().all(|time| time.len() <= 7), "{:?}", times.max_by_key(|time| time.len()));
}

/// The lines of `[data]` that remedies ask for, followed to the letter until the file is read.
fn followed(bytes: &[u8], most: usize) -> (String, Run) {
    let mut data = String::new();
    for _ in 0..most {
        let run = identify(bytes, &data);
        if run.status == 0 {
            return (data, run);
        }
        let help = run.stderr.split("help: ").nth(1).unwrap_or_else(|| panic!("no remedy: {}", run.stderr));
        let asked = help.split('`').skip(1).step_by(2).find(|words| words.contains(" = "));
        let line = asked.unwrap_or_else(|| panic!("no key in: {help}"));
        assert!(!data.contains(line), "`{line}` did not help: {}", run.stderr);
        data.push_str(line);
        data.push('\n');
    }
    panic!("still refused with\n{data}");
}

#[test]
fn remedies_for_strange_files_work_when_followed() {
    let plain = text("t,u,x\n", |t, u, x| format!("{t},{u},{x}"));
    let truth = estimate(&identify(plain.as_bytes(), ""));
    let second = |t: f64| format!("{:04.1}", 10.0 + t);
    let cases: Vec<(String, &str)> = vec![
        (text("t;u;x\n", |t, u, x| format!("{};{};{}", comma(t), comma(u), comma(x))), "decimal = \",\""),
        (format!("Logger 5\nRun: 3\n\n{plain}"), "skip = 3"),
        (plain.replace(',', "   "), "separator = \" \""),
        (
            text("t,u,x\n", |t, u, x| format!("01.03.2024 12:30:{},{u},{x}", second(t))),
            "time_format = \"%d.%m.%Y %H:%M:%S\"",
        ),
        (
            text("t,u,x\n", |t, u, x| format!("3/14/2024 1:30:{} PM,{u},{x}", second(t))),
            "time_format = \"%m/%d/%Y %I:%M:%S %p\"",
        ),
        (
            text("t,u,x\n", |t, u, x| format!("14-Mar-2024 01:30:{},{u},{x}", second(t))),
            "time_format = \"%d-%b-%Y %H:%M:%S\"",
        ),
        (plain.replace("0.3,1,0.63\n", "0.3,0.5,0.63\n0.3,1,0.63\n"), "repeated = \"last\""),
        (plain.replacen("t,u", "time,u", 1), "time = \"time\""),
        (plain.replace("0.3,1,0.63\n", "0.3,1,0.63\n0.35,1,inf\n"), "missing = [\"inf\"]"),
        (plain.replace("0.3,1,0.63\n", "0.3,1,0.63\n0.35,1,--\n"), "missing = [\"--\"]"),
    ];
    for (file, line) in cases {
        let (data, run) = followed(file.as_bytes(), 3);
        assert!(data.contains(line), "{data}");
        assert!((estimate(&run) - truth).abs() < 1e-9 * truth, "{data}");
    }
    // A unit of time in the header is refused until somebody says what it is.
    let minutes = text("t [min],u,x\n", |t, u, x| format!("{},{u},{x}", t / 60.0));
    let (data, run) = followed(minutes.as_bytes(), 3);
    assert!(data.contains("time_unit = \"min\""), "{data}");
    assert!((estimate(&run) - truth).abs() < 1e-6 * truth);
    // Bars between cells need no key.
    assert!((estimate(&identify(plain.replace(',', "|").as_bytes(), "")) - truth).abs() < 1e-9 * truth);
    // Where nothing in `[data]` helps, the remedy does not say so.
    let summed = identify(format!("{plain}Mean,0.5,0.2\n").as_bytes(), "");
    assert!(summed.stderr.contains("data.csv:8:1") && summed.stderr.contains("remove it"), "{}", summed.stderr);
}

#[test]
fn columns_in_other_units_than_the_models_are_refused_with_the_conversion() {
    let model =
        MODEL.replace("input Real u;", "input Real u(unit = \"W\");").replace("Real x(", "Real x(unit = \"K\", ");
    let run = |header: &str, row: &dyn Fn(f64, f64, f64) -> String, columns: (&str, &str), data: &str| {
        let study = study("data.csv", data)
            .replace("column = \"u\"", &format!("column = \"{}\"", columns.0))
            .replace("column = \"x\"", &format!("column = \"{}\"", columns.1));
        let session = Session::with_model(&model).with("study.toml", &study).with("data.csv", &text(header, row));
        session.run(&["identify", "study.toml", "--json"])
    };
    let plain = |t: f64, u: f64, x: f64| format!("{t},{u},{x}");
    let truth = estimate(&run("t,u,x\n", &plain, ("u", "x"), ""));
    let kilowatts = |t: f64, u: f64, x: f64| format!("{t},{},{x}", u / 1000.0);
    let celsius = |t: f64, u: f64, x: f64| format!("{t},{u},{}", x - 273.15);
    let both = |t: f64, u: f64, x: f64| format!("{t},{},{}", u / 1000.0, x - 273.15);
    type Case<'a> = (&'a str, &'a dyn Fn(f64, f64, f64) -> String, (&'a str, &'a str), &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        ("t,u,x\ns,kW,K\n", &kilowatts, ("u", "x"), &["scale = { u = 1000 }"]),
        ("t,u [kW],x\n", &kilowatts, ("u [kW]", "x"), &["scale = { \"u [kW]\" = 1000 }"]),
        ("t,u_kW,x\n", &kilowatts, ("u_kW", "x"), &["scale = { u_kW = 1000 }"]),
        ("t,u,x (°C)\n", &celsius, ("u", "x (°C)"), &["offset = { \"x (°C)\" = 273.15 }"]),
        ("t,u,x\ns,W,degC\n", &celsius, ("u", "x"), &["offset = { x = 273.15 }"]),
        ("t,u,x\ns,kW,°C\n", &both, ("u", "x"), &["scale = { u = 1000 }", "offset = { x = 273.15 }"]),
        // A unit of something else: the numbers may be right all the same.
        ("t,u,x\ns,V,K\n", &plain, ("u", "x"), &["scale = { u = 1 }"]),
    ];
    for (header, row, columns, remedies) in cases {
        let refused = run(header, row, columns, "");
        assert_eq!(refused.status, 1, "{header}");
        assert!(refused.stderr.contains("study.toml:6:1") || refused.stderr.contains("study.toml:8:1"), "{header}");
        for remedy in remedies {
            assert!(refused.stderr.contains(&format!("`{remedy}`")), "no {remedy} in {}", refused.stderr);
        }
        let found = estimate(&run(header, row, columns, &(remedies.join("\n") + "\n")));
        assert!((found - truth).abs() < 1e-6 * truth, "{header}: {found} {truth}");
    }
    // What is said in the model's own unit, or cannot be read, is no reason to ask.
    for header in ["t,u,x\ns,W,K\n", "t,u,x\nSekunden,Watt,Kelvin\n"] {
        assert!((estimate(&run(header, &plain, ("u", "x"), "")) - truth).abs() < 1e-9 * truth, "{header}");
    }
}

#[test]
fn a_study_is_made_from_a_loggers_file_with_lines_before_its_header() {
    let rows = |time: &dyn Fn(u32) -> String| -> String {
        let mut level = 20.0f64;
        let mut text = String::new();
        for row in 0..80u32 {
            let power = f64::from(row / 15 % 2);
            text.push_str(&format!("{};{};{}\n", time(row), comma(power), comma((level * 1e3).round() / 1e3)));
            level = (level - 20.0 - 4.0 * power).mul_add((-0.2f64).exp(), 20.0 + 4.0 * power);
        }
        text
    };
    let stamp = |row: u32| format!("{:02}.03.2024 {:02}:{:02}:00", 14, 10 + row / 60, row % 60);
    let iso = |row: u32| format!("2024-03-14T{:02}:{:02}:00", 10 + row / 60, row % 60);
    let head = "Messgerät: Almemo 2590\nKanäle: 2; Intervall: 60 s\n\nDatum/Uhrzeit;Heizleistung;Temperatur\n;kW;°C\n";
    let seconds = |row: u32| (60 * row).to_string();
    let times: [(&dyn Fn(u32) -> String, &str); 3] =
        [(&stamp, "time_format = \"%d.%m.%Y %H:%M:%S\""), (&iso, "time = \"Datum/Uhrzeit\""), (&seconds, "skip = 3")];
    for (time, words) in times {
        let session = Session::new().with("log.csv", &format!("{head}{}", rows(time)));
        let run = session.run(&["new", "boiler", "--data", "log.csv"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let study = std::fs::read_to_string(session.path("boiler/boiler.toml")).unwrap();
        for words in [words, "skip = 3", "decimal = \",\"", "[inputs]\nHeizleistung"] {
            assert!(study.contains(words), "no {words} in\n{study}");
        }
        let model = std::fs::read_to_string(session.path("boiler/boiler.mo")).unwrap();
        assert!(model.contains("unit = \"kW\"") && model.contains("unit = \"degC\""), "{model}");
        let found = session.run(&["identify", "boiler/boiler.toml", "--json"]);
        assert_eq!(found.status, 0, "{}", found.stderr);
        let parameters = found.json()["parameters"].as_array().unwrap().clone();
        let lag = parameters.iter().find(|one| one["name"] == "T_Temperatur").unwrap()["estimate"].as_f64().unwrap();
        assert!((lag - 300.0).abs() < 1.0, "{words}: {lag}");
        // A column is an input if somebody says so, and all others are measured then.
        let named = session.run(&["new", "other", "--data", "log.csv", "--input", "Temperatur"]);
        assert_eq!(named.status, 0, "{}", named.stderr);
        let study = std::fs::read_to_string(session.path("other/other.toml")).unwrap();
        assert!(study.contains("[inputs]\nTemperatur") && study.contains("[measurements]\nHeizleistung"), "{study}");
        let wrong = session.run(&["new", "third", "--data", "log.csv", "--input", "Strom"]);
        assert!(wrong.status == 2 && wrong.stderr.contains("columns: Heizleistung, Temperatur"), "{}", wrong.stderr);
    }
}

/// A workbook with one sheet: numbers, dates in the first column, words.
fn workbook(rows: &str) -> Vec<u8> {
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    let main = "xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"";
    let link = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let package = "http://schemas.openxmlformats.org/package/2006";
    let files = [
        (
            "[Content_Types].xml",
            format!(
                "{head}<Types xmlns=\"{package}/content-types\"><Default Extension=\"xml\" ContentType=\"application/xml\"/></Types>"
            ),
        ),
        (
            "_rels/.rels",
            format!(
                "{head}<Relationships xmlns=\"{package}/relationships\"><Relationship Id=\"r1\" Type=\"{link}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
            ),
        ),
        (
            "xl/workbook.xml",
            format!(
                "{head}<workbook {main} xmlns:r=\"{link}\"><sheets><sheet name=\"Log\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>"
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            format!(
                "{head}<Relationships xmlns=\"{package}/relationships\"><Relationship Id=\"r1\" Type=\"{link}/worksheet\" Target=\"worksheets/sheet1.xml\"/><Relationship Id=\"r2\" Type=\"{link}/styles\" Target=\"styles.xml\"/></Relationships>"
            ),
        ),
        (
            "xl/styles.xml",
            format!(
                "{head}<styleSheet {main}><cellXfs count=\"2\"><xf numFmtId=\"0\"/><xf numFmtId=\"22\" applyNumberFormat=\"1\"/></cellXfs></styleSheet>"
            ),
        ),
        ("xl/worksheets/sheet1.xml", format!("{head}<worksheet {main}><sheetData>{rows}</sheetData></worksheet>")),
    ];
    let entries: Vec<Entry> = files
        .into_iter()
        .map(|(name, text)| Entry { path: name.to_owned(), bytes: text.into_bytes(), is_executable: false })
        .collect();
    pack(&entries).unwrap()
}

#[test]
fn sheets_of_excel_are_read_like_text_files() {
    let truth = estimate(&identify(text("t,u,x\n", |t, u, x| format!("{t},{u},{x}")).as_bytes(), ""));
    let word = |place: &str, text: &str| format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let sheet = |time: &dyn Fn(f64) -> String| {
        let mut rows = format!("<row r=\"1\">{}{}{}</row>", word("A1", "t"), word("B1", "u"), word("C1", "x"));
        rows += &format!("<row r=\"2\">{}{}{}</row>", word("A2", "s"), word("B2", "V"), word("C2", "m"));
        for (at, (t, u, x)) in ROWS.iter().enumerate() {
            let row = at + 3;
            rows += &format!(
                "<row r=\"{row}\">{}<c r=\"B{row}\"><v>{u}</v></c><c r=\"C{row}\"><v>{x}</v></c></row>",
                time(*t).replace('#', &row.to_string())
            );
        }
        workbook(&rows)
    };
    let identify = |bytes: &[u8], data: &str| {
        let session = Session::with_model(MODEL).with("study.toml", &study("data.xlsx", data));
        std::fs::write(session.path("data.xlsx"), bytes).unwrap();
        session.run(&["identify", "study.toml", "--json"])
    };
    let numbers = sheet(&|t| format!("<c r=\"A#\"><v>{t}</v></c>"));
    assert!((estimate(&identify(&numbers, "")) - truth).abs() < 1e-9 * truth);
    assert!((estimate(&identify(&numbers, "sheet = \"Log\"\n")) - truth).abs() < 1e-9 * truth);
    // Dates are days since 1900, in cells of another format.
    let dates = sheet(&|t| format!("<c r=\"A#\" s=\"1\"><v>{}</v></c>", 45000.5 + t / 86400.0));
    assert!((estimate(&identify(&dates, "")) - truth).abs() < 1e-6 * truth);
    let run = identify(&numbers, "sheet = \"Other\"\n");
    assert!(run.status == 1 && run.stderr.contains("sheets: Log"), "{}", run.stderr);
    for broken in [&b"no workbook"[..], &numbers[..numbers.len() / 2], b""] {
        let run = identify(broken, "");
        assert!(run.status == 1 && run.stderr.contains("CSV"), "{}", run.stderr);
    }
}
