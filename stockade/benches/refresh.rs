//! The cost for a session of checking that its settings and rules are unchanged, compared with reading them again and
//! with starting a program.

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    unix::main()
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod unix {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use stockade::Stockade;
    use stockade::protocol::RawText;

    const ROUNDS: u32 = 300;

    pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let base = tempfile::tempdir()?;
        let (home, project) = (base.path().join("home"), base.path().join("project"));
        fill(&home.join(".config/stockade"), &project)?;
        let path = std::env::var_os("PATH").unwrap_or_default().into_encoded_bytes();
        let environment: BTreeMap<RawText, RawText> = [
            (RawText::from("HOME"), RawText::from(home.into_os_string().into_encoded_bytes())),
            (RawText::from("PATH"), RawText::from(path)),
        ]
        .into();
        let stockade = Stockade::builder().environment(environment).workspace(project).build()?;
        // A file that was just written is always read again.
        std::thread::sleep(Duration::from_millis(200));
        stockade.refresh()?;
        let unchanged = average(|| stockade.refresh().is_ok());
        let read = average(|| stockade.update(|_| ()).is_ok());
        let started = average(starts_a_program);
        println!("settings and rules of a session, of 20 rules files with 20 rules each:");
        println!("  found unchanged: {unchanged:?}");
        println!("  read again: {read:?}, {:.0} times as long", read.as_secs_f64() / unchanged.as_secs_f64());
        println!(
            "  starting `true`: {started:?}, {:.1} times as long",
            started.as_secs_f64() / unchanged.as_secs_f64()
        );
        if unchanged > started / 2 {
            println!("\nbroken bound: a look at the files takes more than half of starting a program");
            std::process::exit(1);
        }
        Ok(())
    }

    fn fill(settings: &Path, project: &Path) -> std::io::Result<()> {
        fs::create_dir_all(settings.join("rules"))?;
        fs::create_dir_all(project)?;
        fs::write(settings.join("config.toml"), "timeout = \"10m\"\n")?;
        for file in 0..20 {
            let rules = (0..20).map(|rule| format!("prefix_rule(pattern = ['tool{file}', 'verb{rule}'])\n"));
            fs::write(settings.join(format!("rules/{file:02}.rules")), rules.collect::<String>())?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "it is what is compared with")]
    fn starts_a_program() -> bool {
        Command::new("true").status().is_ok()
    }

    fn average(mut work: impl FnMut() -> bool) -> Duration {
        let start = Instant::now();
        let done = (0..ROUNDS).filter(|_| work()).count();
        assert_eq!(u32::try_from(done).ok(), Some(ROUNDS));
        start.elapsed() / ROUNDS
    }
}
