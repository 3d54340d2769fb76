//! The first minutes with the program: what is in a model, a study to begin with, class names, completions, and what is
//! left of a simulation that fails.

use serde_json::Value;

use crate::session::Session;

const MODEL: &str = "model M
  parameter Real k(unit = \"1/s\", min = 0, max = 10) = 2 \"Decay rate\";
  parameter Real twice = 2*k;
  parameter Boolean on = true;
  parameter Integer n = 3;
  input Real u(unit = \"V\") \"Voltage\";
  Real x(start = 1, fixed = true, unit = \"m\");
  output Real y = x;
equation
  der(x) = -k*x + u;
end M;
";

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[test]
fn a_model_is_described_with_values_units_bounds_and_places() {
    let session = Session::with_model(MODEL);
    let run = session.run(&["describe", "model.mo", "--json", "--set", "k=3"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(names(&document["parameters"]), ["k", "twice", "on", "n"]);
    assert_eq!(names(&document["inputs"]), ["u"]);
    assert_eq!(names(&document["outputs"]), ["y"]);
    assert_eq!(names(&document["variables"]), ["x", "y"]);
    let k = &document["parameters"][0];
    assert_eq!((k["value"].as_f64(), k["unit"].as_str()), (Some(3.0), Some("1/s")), "{k}");
    assert_eq!((k["min"].as_f64(), k["max"].as_f64()), (Some(0.0), Some(10.0)), "{k}");
    assert_eq!(k["description"], "Decay rate");
    assert_eq!(k["place"], "model.mo:2:18");
    assert_eq!(document["parameters"][1]["value"], 6.0);
    assert_eq!(document["parameters"][2]["value"], true);
    assert_eq!(document["parameters"][3]["value"], 3);
    let x = &document["variables"][0];
    assert_eq!((x["start"].as_f64(), x["fixed"].as_bool()), (Some(1.0), Some(true)), "{x}");
    let text = session.run(&["describe", "model.mo"]).stdout;
    assert!(text.contains("Parameters (4)") && text.contains("Decay rate"), "{text}");
    assert_eq!(session.run(&["describe", "model.mo", "-o", "out.csv"]).status, 2);
}

#[test]
fn a_class_of_the_library_stands_in_the_place_of_a_file() {
    let class = "Modelica.Electrical.Analog.Basic.Resistor";
    let session = Session::new().with("study.toml", &format!("[model]\nfile = \"{class}\"\n"));
    for file in [class, "study.toml"] {
        let run = session.run(&["describe", file, "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        assert_eq!(run.json()["model"], class);
        assert!(names(&run.json()["parameters"]).contains(&"R"));
    }
    let wrong = session.run(&["check", "Modelica.Electrical.Analog.Basic.Resistr"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.stderr.contains("Resist"), "{}", wrong.stderr);
    let other = session.run(&["check", "model.txt"]);
    assert_eq!(other.status, 1);
    assert!(other.stderr.contains("file-kind"), "{}", other.stderr);
}

#[test]
fn a_new_study_can_be_identified_at_once() {
    let session = Session::new();
    let run = session.run(&["new", "tank", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.json()["files"].as_array().unwrap().len(), 3);
    let found = session.run(&["identify", "tank/tank.toml", "--json"]);
    assert_eq!(found.status, 0, "{}", found.stderr);
    let parameters = found.json()["parameters"].as_array().unwrap().clone();
    let estimate = |name: &str| {
        let one = parameters.iter().find(|parameter| parameter["name"] == name).unwrap();
        one["estimate"].as_f64().unwrap()
    };
    assert!((estimate("T_y") - 3.0).abs() < 0.1 && (estimate("gain_y_u") - 2.0).abs() < 0.05, "{parameters:?}");
    assert_eq!(session.run(&["new", "tank"]).status, 1);
    let refused = session.run(&["new", "2 tanks"]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("daesy new x2_tanks"), "{}", refused.stderr);
}

#[test]
fn a_new_study_is_made_from_the_header_of_a_data_file() {
    let mut text = "Zeit;Power in kW;T oben;note\n".to_owned();
    let mut level = 20.0f64;
    for row in 0..60u32 {
        let power = f64::from(row / 15 % 2);
        text.push_str(&format!("{row};{};{};ok\n", power, format!("{:.3}", level).replace('.', ",")));
        level = (level - 20.0 - 4.0 * power).mul_add((-0.2f64).exp(), 20.0 + 4.0 * power);
    }
    let session = Session::new().with("log.csv", &text);
    let run = session.run(&["new", "boiler", "--data", "log.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let study = std::fs::read_to_string(session.path("boiler/boiler.toml")).unwrap();
    for words in ["time = \"Zeit\"", "decimal = \",\"", "column = \"Power in kW\"", "column = \"T oben\""] {
        assert!(study.contains(words), "no {words} in\n{study}");
    }
    assert!(!study.contains("note"), "{study}");
    let found = session.run(&["identify", "boiler/boiler.toml", "--json"]);
    assert_eq!(found.status, 0, "{}", found.stderr);
}

/// An export in local time on the night when clocks are set back: the hour from 2 to 3 comes twice, a sensor was out
/// for a moment, and the logger stood still for half a day.
#[test]
fn a_new_study_reads_the_night_in_which_clocks_are_set_back() {
    let stamps = (0..12).map(|at| (if at < 6 { 2 } else { 1 + at / 6 }, at % 6 * 10));
    let mut text = "Zeitstempel;Heizleistung;Stra\u{df}e;Zustand\n;kW;degC;\n".to_owned();
    for (at, (hour, minute)) in stamps.enumerate() {
        let street = if at == 4 { "n/a".to_owned() } else { format!("7,{at}") };
        text.push_str(&format!("27.10.2024 0{hour}:{minute:02};1,5;{street};an\n"));
    }
    for at in 0..20 {
        text.push_str(&format!("27.10.2024 15:{at:02};2,5;7,5;an\n"));
    }
    let session = Session::new().with("logger.csv", &text);
    let run = session.run(&["new", "strasse", "--data", "logger.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("`an` is not a number (column `Zustand`)"), "{}", run.stderr);
    let study = std::fs::read_to_string(session.path("strasse/strasse.toml")).unwrap();
    for key in ["summer_time = true", "missing = [\"n/a\"]", "decimal = \",\"", "Strasse = {"] {
        assert!(study.contains(key), "{key} in {study}");
    }
    for verb in ["check", "simulate", "identify"] {
        let run = session.run(&[verb, "strasse/strasse.toml", "--report", "page.html"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        assert!(run.stderr.contains("logger.csv:15:1: warning[data-break]"), "{verb}: {}", run.stderr);
        let page = std::fs::read_to_string(session.path("page.html")).unwrap();
        assert!(verb == "check" || page.matches("there are no rows between").count() == 1, "{verb}: not on its page");
    }
    // The table of a simulation has the times of the data, and an hour that comes twice lasts two.
    let run = session.run(&["simulate", "strasse/strasse.toml", "-o", "table.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = std::fs::read_to_string(session.path("table.csv")).unwrap();
    let times: Vec<&str> = table.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(
        times[..13],
        ["0", "600", "1200", "1800", "2400", "3000", "3600", "4200", "4800", "5400", "6000", "6600", "50400"]
    );
}

/// Whatever stops `identify` in the data stops `check`, in every record, with the line of the file.
#[test]
fn check_reads_every_record() {
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.0 }\n[inputs]\nu = { column = \"u\" }\n\
                 [measurements]\nx = { std = 0.1 }\n[data]\nfiles = [\"a.csv\"]\nvalidation = [\"b.csv\"]\n";
    let session = Session::with_model(MODEL)
        .with("a.csv", "t,u,x\n0,1,1\n1,1,0.4\n2,1,0.5\n3,1,0.5\n")
        .with("b.csv", "# a comment\nt,u,x\n0,1,1\n1,,0.4\n2,,0.5\n")
        .with("study.toml", study);
    let run = session.run(&["check", "study.toml"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    assert!(run.stderr.contains("b.csv:4:1: error[input-missing-sample]"), "{}", run.stderr);
    assert!(run.stderr.contains("and in one more row"), "{}", run.stderr);
}

/// `--class Plant` of a model that is in a package.
#[test]
fn a_class_without_its_package_is_found() {
    let part = |name: &str| format!("model {name} Real x(start = 1); equation der(x) = -x; end {name};");
    let session = Session::with_model(&format!("package Drive {} {} end Drive;", part("Plant"), part("Loop")));
    let run = session.run(&["check", "model.mo", "--class", "Plant"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("did you mean `Drive.Plant`?"), "{}", run.stderr);
    assert_eq!(session.run(&["check", "model.mo", "--class", "Drive.Plant"]).status, 0);
}

#[test]
fn shells_and_manuals_know_every_verb() {
    let session = Session::new();
    for shell in ["bash", "zsh", "fish"] {
        let run = session.run(&["completions", shell]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        assert!(run.stdout.contains("identify") && run.stdout.contains("--report") || shell == "fish", "{shell}");
    }
    assert_eq!(session.run(&["completions", "cobol"]).status, 2);
    assert_eq!(session.run(&["man", "pages"]).status, 0);
    let page = std::fs::read_to_string(session.path("pages/daesy-simulate.1")).unwrap();
    assert!(page.contains("\\-\\-report"), "{page}");
}

#[test]
fn a_simulation_that_fails_keeps_its_table_up_to_the_failure() {
    let model = "model A\n  Real x(start = 1, fixed = true);\nequation\n  der(x) = x^2;\nannotation(experiment(StopTime = 2));\nend A;\n";
    let session = Session::with_model(model);
    let run = session.run(&["simulate", "model.mo", "-o", "out.csv", "--json"]);
    assert_eq!(run.status, 3, "{}", run.stderr);
    let ended_at = run.json()["ended_at"].as_f64().unwrap();
    assert!(ended_at > 0.98 && ended_at < 1.0001, "{ended_at}");
    let table = std::fs::read_to_string(session.path("out.csv")).unwrap();
    let last: f64 = table.lines().last().unwrap().split(',').next().unwrap().parse().unwrap();
    assert_eq!(last, ended_at);
    assert!(table.lines().count() > 200, "{}", table.lines().count());
    let run = session.run(&["simulate", "model.mo", "-o", "out.csv"]);
    assert!(run.stdout.contains(&format!("The simulation failed: the table ends at t = {ended_at}")), "{}", run.stdout);
}

/// A file gets its rows as they come, the terminal has the table that was kept: what jumps, slides, ends early or is
/// tried twice must not make a difference.
#[test]
fn rows_that_are_written_as_they_come_are_those_of_the_table_that_is_kept() {
    let models = [
        "  Real h(start = 1, fixed = true);\n  Real v(start = 0, fixed = true);\n  Integer n(start = 0, fixed = true);\n\
         equation\n  der(h) = v;\n  der(v) = -9.81;\n  when h < 0 then\n    reinit(v, -0.8*pre(v));\n    \
         n = pre(n) + 1;\n  end when;\n",
        "  Real x(start = 1, fixed = true);\n  Real y = 2*x;\nequation\n  \
         der(x) = (if x > 0 then -1 else 1) + 0.2*sin(5*time);\n",
        "  Real x(start = 1, fixed = true);\n  Real t = x + 1;\nequation\n  der(x) = x^2;\n",
        "  Real x(start = 1, fixed = true);\nequation\n  der(x) = -x;\n  when x < 0.3 then\n    \
         terminate(\"small\");\n  end when;\n",
    ];
    for model in models {
        let text = format!("model A\n{model}annotation(experiment(StopTime = 2));\nend A;\n");
        let session = Session::with_model(&text);
        let kept = session.run(&["simulate", "model.mo"]);
        let passed = session.run(&["simulate", "model.mo", "-o", "out.csv", "--json"]);
        assert_eq!(kept.status, passed.status, "{}", passed.stderr);
        assert_eq!(std::fs::read_to_string(session.path("out.csv")).unwrap(), kept.stdout);
        // A page needs the table, which is kept then.
        session.run(&["simulate", "model.mo", "-o", "kept.parquet", "--report", "page.html"]);
        session.run(&["simulate", "model.mo", "-o", "passed.parquet"]);
        let bytes = |name: &str| std::fs::read(session.path(name)).unwrap();
        assert!(bytes("kept.parquet") == bytes("passed.parquet"));
        let nothing = session.run(&["simulate", "model.mo", "--json"]);
        assert_eq!(nothing.json()["events"], passed.json()["events"]);
    }
}

#[test]
fn a_simulation_without_a_start_leaves_no_file() {
    let model = "model A\n  Real x(start = -1, fixed = true);\nequation\n  der(x) = sqrt(x);\nend A;\n";
    let session = Session::with_model(model).with("out.csv", "old\n");
    let run = session.run(&["simulate", "model.mo", "-o", "out.csv"]);
    assert_ne!(run.status, 0);
    assert_eq!(std::fs::read_to_string(session.path("out.csv")).unwrap(), "old\n");
    let names = std::fs::read_dir(session.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".part")));
}

#[test]
fn a_page_shows_the_signals_that_a_study_asks_for() {
    let study = "[model]\nfile = \"model.mo\"\n[report]\nsignals = [\"y\"]\n";
    let session = Session::with_model(MODEL).with("study.toml", study);
    let run = session.run(&["simulate", "study.toml", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(session.path("page.html")).unwrap();
    assert!(page.contains("y over time.") && !page.contains("x, y over time."));
    let wrong = session.with("wrong.toml", &study.replace("\"y\"", "\"yy\"")).run(&["simulate", "wrong.toml"]);
    assert!(wrong.stderr.contains("wrong.toml:4:12") && wrong.stderr.contains("did you mean `y`"), "{}", wrong.stderr);
}

#[test]
fn a_page_says_where_it_comes_from_and_folds_its_events() {
    let model = "model Bounce \"A ball\"
  Real h(start = 1, fixed = true, unit = \"m\") \"Height\";
  Real v(start = 0, fixed = true, unit = \"m/s\");
equation
  der(h) = v;
  der(v) = -9.81;
  when h < 0 then
    reinit(v, -0.8*pre(v));
  end when;
  annotation(experiment(StopTime = 1));
end Bounce;
";
    let session = Session::with_model(model);
    let run = session.run(&["simulate", "model.mo", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(session.path("page.html")).unwrap();
    for words in [
        "Bounce (A ball) was simulated from 0 s to 1 s.",
        "h (Height) over time.",
        ">in m<",
        "time in s",
        "events</summary>",
        "Where this page comes from",
        "daesy simulate model.mo --report page.html",
        "SHA-256",
        "data-link=\"time\"",
    ] {
        assert!(page.contains(words), "no `{words}`");
    }
    // Pictures come before tables.
    assert!(page.find("<svg").unwrap() < page.find("<table").unwrap());
}

/// What matters comes first, with the units that the model has, and time in hours where it is long.
#[test]
fn a_page_of_random_parameters_begins_with_bands_of_what_matters() {
    let model = "model Room
  parameter Real tau(unit = \"s\") = 20000;
  Real T(start = 10, fixed = true, unit = \"degC\") \"Air\";
  Real hidden = 2*T;
equation
  tau*der(T) = 20 - T;
end Room;
";
    let study = "[model]\nfile = \"model.mo\"\n[random]\ntau = { normal = { mean = 20000, std = 1000 } }\n\
                 [simulate]\nstop = 40000\nstep = 4000\n[uq]\nmethod = \"collocation\"\ndegree = 2\n";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.run(&["uq", "study.toml", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(session.path("page.html")).unwrap();
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("no `{words}`"));
    assert!(place("T (Air): mean, and the band") < place("Variances and polynomials"));
    assert!(place("Variances and polynomials") < place("Expected values of T"));
    assert!(page.contains("T in \u{b0}C") && page.contains("time in h") && page.contains("data-unit=\"3600 h\""));
    assert!(!page.contains("hidden: mean"));
}

#[test]
fn a_page_of_two_million_rows_is_small_and_keeps_its_peak() {
    let model = "model Long
  Real x(start = 0, fixed = true);
  output Real y = sin(time) + (if time > 1000 and time < 1000.002 then 50 else 0);
equation
  der(x) = -x;
end Long;
";
    let study = "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 2000\nstep = 0.001\n";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.run(&["simulate", "study.toml", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(session.path("page.html")).unwrap();
    assert!(page.len() < 3_000_000, "{}", page.len());
    // The axis covers the peak.
    assert!(page.contains(">50<"), "the peak is lost");
}

#[test]
fn the_book_lists_every_option_as_the_program_has_it() {
    let session = Session::new();
    assert_eq!(session.run(&["man", "pages"]).status, 0);
    let made = std::fs::read_to_string(session.path("pages/options.md")).unwrap();
    let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/options.md");
    let written = std::fs::read_to_string(book).unwrap();
    assert!(made == written, "`daesy man FOLDER` makes options.md: copy it to book/src");
    for option in ["--posterior-file OUT", "-o OUT", "--max-step H", "--false-alarm-rate RATE", "--future FILE"] {
        assert!(made.contains(option), "{option}");
    }
}

/// A logger in another language: the first column is the time whatever its name, and the study estimates the start.
#[test]
fn a_record_with_a_time_of_any_name_becomes_a_study() {
    let row = |t: f64| 20.0 + 5.0 * (1.0 - (-t / 30.0).exp()) + 0.05 * (7.0 * t).sin();
    let times = (0..60).map(|k| 2.0 * f64::from(k));
    let rows: Vec<String> = times.map(|t| format!("{t},{}", row(t))).collect();
    let session = Session::new().with("journal.csv", &format!("Temps (s),cuve\n{}\n", rows.join("\n")));
    let run = session.run(&["new", "plant", "--data", "journal.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let folder = session.path("plant");
    let study = std::fs::read_to_string(folder.join("plant.toml")).unwrap();
    assert!(study.contains("time = \"Temps (s)\"") && study.contains("[initial]\nmode = \"estimate\""), "{study}");
    let run = session.run(&["identify", "plant/plant.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let lag = document["parameters"].as_array().unwrap().iter().find(|it| it["name"] == "T_cuve").cloned().unwrap();
    let (found, error) = (lag["estimate"].as_f64().unwrap(), lag["std_error"].as_f64().unwrap());
    assert!((found - 30.0).abs() < 4.0 * error.max(0.3), "{lag}");
    let session = Session::new().with("plain.csv", "a,b\n3,1\n1,2\n2,3\n5,4\n4,5\n");
    let run = session.run(&["new", "plant", "--data", "plain.csv"]);
    assert!(run.stderr.contains("no column holds the time"), "{}", run.stderr);
}

/// Days alone are no time: ten seconds on either side of midnight are not a day.
#[test]
fn a_time_in_two_columns_and_words_among_numbers_are_told() {
    let rows =
        "31/12/2023;23:59:50;20,1\n01/01/2024;00:00:00;20,2\n01/01/2024;00:00:10;20,4\n01/01/2024;00:00:20;bad\n";
    let session = Session::new().with("log.csv", &format!("Date;Heure;Temp\n{rows}"));
    let run = session.run(&["new", "room", "--data", "log.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("the time stands in two columns, `Date` and `Heure`"), "{}", run.stderr);
    assert!(run.stderr.contains("`bad` among numbers"), "{}", run.stderr);
    let study = std::fs::read_to_string(session.path("room/room.toml")).unwrap();
    assert!(study.contains("step = 1.0") && !study.contains("time ="), "{study}");
    assert!(study.contains("missing = [\"bad\"]"), "{study}");
}
