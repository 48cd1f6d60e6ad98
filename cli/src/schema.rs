//! `stockade schema`: the JSON Schemas of the protocol, of the server and of the settings, printed or as files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use stockade_config::{CONFIG_SCHEMA_NAME, PROFILE_SCHEMA_NAME, config_schema, profile_schema};
use stockade_protocol::{BUNDLE_NAME, bundle, messages};
use stockade_server::wire::{SERVER_BUNDLE_NAME, openrpc, server_bundle};

use crate::args::Schema;
use crate::exit::{Failure, print};

/// Every method of the server, for tools that read OpenRPC.
const OPENRPC_FILE: &str = "openrpc.json";

#[derive(Debug, thiserror::Error)]
enum SchemaError {
    #[error("no message is called `{name}`: there are {known}")]
    UnknownMessage { name: String, known: String },
    #[error("could not write `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("could not read `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{files} in `{}` differ from the types: run `stockade schema --out {}`", .directory.display(), .directory.display())]
    Stale { directory: PathBuf, files: String },
    #[error("could not render a schema as JSON")]
    Render(#[from] serde_json::Error),
}

pub(crate) fn run(args: &Schema) -> Result<(), Failure> {
    match (&args.out, &args.message) {
        (Some(directory), _) if args.check => check(directory)?,
        (Some(directory), _) => write(directory)?,
        (None, Some(name)) => print(&one(name)?)?,
        (None, None) => print(&render(&bundle())?)?,
    }
    Ok(())
}

fn render(schema: &impl serde::Serialize) -> Result<String, SchemaError> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}

fn one(name: &str) -> Result<String, SchemaError> {
    if name == CONFIG_SCHEMA_NAME {
        return render(&config_schema());
    }
    if name == PROFILE_SCHEMA_NAME {
        return render(&profile_schema());
    }
    if name == SERVER_BUNDLE_NAME {
        return render(&server_bundle());
    }
    let messages = messages();
    let known = || {
        let names = messages.iter().map(|message| message.name.as_ref());
        let names = names.chain([CONFIG_SCHEMA_NAME, PROFILE_SCHEMA_NAME, SERVER_BUNDLE_NAME]);
        names.collect::<Vec<_>>().join(", ")
    };
    let found = messages.iter().find(|message| message.name == name);
    render(&found.ok_or_else(|| SchemaError::UnknownMessage { name: name.to_owned(), known: known() })?.schema())
}

/// The file names and texts of all schemas.
fn files() -> Result<BTreeMap<String, String>, SchemaError> {
    let all = messages().into_iter().map(|message| (message.name.clone(), message.schema()));
    let bundles = [
        (BUNDLE_NAME.into(), bundle()),
        (SERVER_BUNDLE_NAME.into(), server_bundle()),
        (CONFIG_SCHEMA_NAME.into(), config_schema()),
        (PROFILE_SCHEMA_NAME.into(), profile_schema()),
    ];
    all.chain(bundles)
        .map(|(name, schema)| Ok((format!("{name}.json"), render(&schema)?)))
        .chain(iter::once_with(|| Ok((String::from(OPENRPC_FILE), render(&openrpc())?))))
        .collect()
}

fn write(directory: &Path) -> Result<(), SchemaError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SchemaError::Write { path, source }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    for (name, text) in files()? {
        let path = directory.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}

/// Compares the existing files with the generated ones, in both directions.
fn check(directory: &Path) -> Result<(), SchemaError> {
    let expected = files()?;
    let actual = json_files(directory)?;
    let names = expected.keys().chain(actual.keys()).collect::<std::collections::BTreeSet<_>>();
    let differing: Vec<&str> =
        names.into_iter().filter(|name| expected.get(*name) != actual.get(*name)).map(String::as_str).collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(SchemaError::Stale { directory: directory.to_owned(), files: differing.join(", ") })
}

fn json_files(directory: &Path) -> Result<BTreeMap<String, String>, SchemaError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SchemaError::Read { path, source }
    };
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, fs::read_to_string(&path).map_err(failed(&path))?);
        }
    }
    Ok(found)
}
