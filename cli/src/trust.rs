//! `stockade trust`: trusts a project's own settings and rules.

mod review;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stockade_config::{ConfigLoader, ProjectTrust, TrustStore};
use stockade_protocol::RawText;

use crate::args::Trust;
use crate::exit::{Failure, print};

/// The project was not on the list.
const NOT_TRUSTED: u8 = 1;

pub(crate) fn run(args: &Trust) -> Result<ExitCode, Failure> {
    let store = ConfigLoader::standard()?.trust_store()?;
    if args.list {
        return list(&store);
    }
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    if args.revoke {
        return revoke(&store, &directory);
    }
    let reviewed = store.review(&directory)?;
    let described = review::describe(&reviewed)?;
    let path = reviewed.path();
    if args.show {
        let none = if described.is_empty() { " none" } else { "" };
        print(&format!("{path} is not trusted by this; its rules and settings:{none}\n{described}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    store.trust(&reviewed)?;
    print(&if described.is_empty() {
        format!("{path} is trusted; it has no settings or rules yet; run this again after adding some\n")
    } else {
        format!("{path} is trusted, as long as these files stay as they are:\n{described}")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(store: &TrustStore, directory: &Path) -> Result<ExitCode, Failure> {
    let shown = RawText::from(directory.as_os_str().as_encoded_bytes().to_vec());
    if store.revoke(directory)? {
        print(&format!("{shown} is no longer trusted\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("stockade: {shown} was not trusted");
    Ok(ExitCode::from(NOT_TRUSTED))
}

fn list(store: &TrustStore) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for project in store.projects()? {
        let state = match project.path.to_host_path().map(|path| store.check(&path)) {
            Some(Ok(ProjectTrust::Trusted)) => String::new(),
            Some(Ok(ProjectTrust::Nothing)) => String::from("  (brings nothing along)"),
            Some(Ok(ProjectTrust::Changed { changes })) => {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                format!("  (no longer: {})", changes.join(", "))
            }
            Some(Ok(ProjectTrust::Untrusted)) | None => String::from("  (no longer)"),
            Some(Err(error)) => format!("  (no longer: {})", RawText::from(error.to_string())),
        };
        text.push_str(&format!("{}{state}\n", project.path));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
