//! `stockade doctor`: what this host can enforce, why not, and what to do about it.

use std::process::ExitCode;

use serde::Serialize;
use stockade::platform;
use stockade_sandboxing::{Diagnosis, LayerSupport, SupportLevel};

#[cfg(unix)]
use crate::agents::doctor as agents;
use crate::args::Doctor;
use crate::exit::{Failure, print};

/// No working engine can enforce every policy.
const INCOMPLETE: u8 = 1;

pub(crate) fn run(args: &Doctor) -> Result<ExitCode, Failure> {
    let diagnosis = platform::diagnose();
    #[cfg(unix)]
    let agents = agents::agents();
    #[cfg(not(unix))]
    let agents: Vec<()> = Vec::new();
    if args.json {
        let report = Report { diagnosis: &diagnosis, agents: &agents };
        print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else {
        #[cfg(unix)]
        print(&(text(&diagnosis) + &agents::text(&agents)))?;
        #[cfg(not(unix))]
        print(&text(&diagnosis))?;
    }
    Ok(if diagnosis.complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

/// The report as JSON.
#[derive(Serialize)]
struct Report<'a, A: Serialize> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    #[serde(skip_serializing_if = "<[A]>::is_empty")]
    agents: &'a [A],
}

/// The report as plain text, for a terminal, a log or a bug report.
fn text(diagnosis: &Diagnosis) -> String {
    let mut text = match (&diagnosis.chosen, diagnosis.complete) {
        (Some(engine), true) => format!("Commands are sandboxed by `{engine}`, which can enforce every policy.\n"),
        (Some(engine), false) => format!(
            "Commands are sandboxed by `{engine}`, which refuses policies that it can't enforce. See below for more.\n"
        ),
        (None, _) => {
            String::from("No sandbox can be built here, so no command is run. See below for what is missing.\n")
        }
    };
    section(&mut text, "host", None, &diagnosis.host);
    for engine in &diagnosis.engines {
        let state = if engine.works() { "works" } else { "does not work here" };
        section(&mut text, &format!("engine {}", engine.engine), Some(state), &engine.layers);
    }
    text
}

fn section(text: &mut String, title: &str, state: Option<&str>, layers: &[LayerSupport]) {
    let state = state.map(|state| format!(": {state}")).unwrap_or_default();
    let mut line = |line: &str| text.extend([line.trim_end(), "\n"]);
    line("");
    line(&format!("{title}{state}"));
    for layer in layers {
        let mark = match layer.level {
            SupportLevel::Full => "yes",
            SupportLevel::Partial => "part",
            SupportLevel::Missing => "no",
        };
        line(&format!("  {mark:<5}{:<18}{}", layer.layer, layer.detail.as_deref().unwrap_or_default()));
        if let Some(remedy) = &layer.remedy {
            line(&format!("       to do: {remedy}"));
        }
    }
}
