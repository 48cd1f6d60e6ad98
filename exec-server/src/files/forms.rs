//! What is said of files on the wire, and which operation of the helper it is.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::helper::LARGEST_BLOCK;
use super::request::{Entry, FileReply, FileRequest, Links, WalkOptions, WalkedKind};
use crate::message::{ErrorBody, base64_bytes, read_params, written};
use crate::sandbox::SandboxContext;
use crate::uri::FileUri;

/// What a method asks for.
pub(super) enum Operation {
    /// One answer.
    Once { request: FileRequest, content: Vec<u8>, sandbox: Option<SandboxContext> },
    /// A file to be read in blocks.
    Open { handle_id: String, request: FileRequest, sandbox: Option<SandboxContext> },
    /// A block of it.
    Block { handle_id: String, offset: u64, len: usize },
    /// No more of it.
    Close { handle_id: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PathParams {
    path: FileUri,
    #[serde(default)]
    follow_symlinks: Option<bool>,
    #[serde(default)]
    sandbox: Option<SandboxContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WriteParams {
    path: FileUri,
    #[serde(with = "base64_bytes")]
    data_base64: Vec<u8>,
    #[serde(default)]
    follow_symlinks: Option<bool>,
    #[serde(default)]
    sandbox: Option<SandboxContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChangeParams {
    path: FileUri,
    #[serde(default)]
    recursive: Option<bool>,
    #[serde(default)]
    force: Option<bool>,
    #[serde(default)]
    follow_symlinks: Option<bool>,
    #[serde(default)]
    sandbox: Option<SandboxContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WalkParams {
    path: FileUri,
    options: WalkOptions,
    #[serde(default)]
    sandbox: Option<SandboxContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CopyParams {
    source_path: FileUri,
    destination_path: FileUri,
    recursive: bool,
    #[serde(default)]
    sandbox: Option<SandboxContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenParams {
    handle_id: String,
    path: FileUri,
    #[serde(default)]
    sandbox: Option<SandboxContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BlockParams {
    handle_id: String,
    offset: u64,
    len: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CloseParams {
    handle_id: String,
}

/// Nothing to say.
#[derive(Serialize)]
pub(super) struct Nothing {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Opened {
    pub(super) handle_id: String,
}

fn links(follow: Option<bool>) -> Links {
    if follow.unwrap_or(true) { Links::Follow } else { Links::Refuse }
}

impl Operation {
    /// Reads a request; none if its method is not about files.
    pub(super) fn read(method: &str, params: &RawValue) -> Option<Result<Self, ErrorBody>> {
        Some(match method {
            "fs/getMetadata" => looks(params, |path, links| FileRequest::Metadata { path: path.0, links }),
            "fs/readFile" => looks(params, |path, links| FileRequest::Read { path: path.0, links }),
            "fs/canonicalize" => looks(params, |path, _| FileRequest::Canonicalize { path: path.0 }),
            "fs/readDirectory" => looks(params, |path, _| FileRequest::List { path: path.0 }),
            "fs/walk" => read_params(params).map(|WalkParams { path, options, sandbox }| Self::Once {
                request: FileRequest::Walk { path: path.0, options },
                content: Vec::new(),
                sandbox,
            }),
            "fs/writeFile" => read_params(params).map(|given: WriteParams| Self::Once {
                request: FileRequest::Write { path: given.path.0, links: links(given.follow_symlinks) },
                content: given.data_base64,
                sandbox: given.sandbox,
            }),
            "fs/createDirectory" => changes(params, |given| FileRequest::MakeDirectory {
                recursive: given.recursive.unwrap_or(true),
                links: links(given.follow_symlinks),
                path: given.path.0,
            }),
            "fs/remove" => changes(params, |given| FileRequest::Remove {
                recursive: given.recursive.unwrap_or(true),
                force: given.force.unwrap_or(true),
                links: links(given.follow_symlinks),
                path: given.path.0,
            }),
            "fs/copy" => read_params(params).map(|given: CopyParams| Self::Once {
                request: FileRequest::Copy {
                    from: given.source_path.0,
                    to: given.destination_path.0,
                    recursive: given.recursive,
                },
                content: Vec::new(),
                sandbox: given.sandbox,
            }),
            "fs/open" => read_params(params).map(|OpenParams { handle_id, path, sandbox }| Self::Open {
                handle_id,
                request: FileRequest::Blocks { path: path.0 },
                sandbox,
            }),
            "fs/readBlock" => read_params(params).and_then(|BlockParams { handle_id, offset, len }| {
                if (1..=LARGEST_BLOCK).contains(&len) {
                    return Ok(Self::Block { handle_id, offset, len });
                }
                Err(ErrorBody::invalid_request(format!("`len` is a number from 1 to {LARGEST_BLOCK}")))
            }),
            "fs/close" => read_params(params).map(|CloseParams { handle_id }| Self::Close { handle_id }),
            _ => return None,
        })
    }
}

fn looks(params: &RawValue, request: impl FnOnce(FileUri, Links) -> FileRequest) -> Result<Operation, ErrorBody> {
    let PathParams { path, follow_symlinks, sandbox } = read_params(params)?;
    Ok(Operation::Once { request: request(path, links(follow_symlinks)), content: Vec::new(), sandbox })
}

fn changes(params: &RawValue, request: impl FnOnce(ChangeParams) -> FileRequest) -> Result<Operation, ErrorBody> {
    let mut given: ChangeParams = read_params(params)?;
    let sandbox = given.sandbox.take();
    Ok(Operation::Once { request: request(given), content: Vec::new(), sandbox })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(with = "base64_bytes")]
    data_base64: Vec<u8>,
}

#[derive(Serialize)]
struct BlockResult {
    #[serde(with = "base64_bytes")]
    chunk: Vec<u8>,
    eof: bool,
}

#[derive(Serialize)]
struct Path {
    path: FileUri,
}

#[derive(Serialize)]
struct Entries {
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct WalkResult {
    entries: Vec<WalkedEntry>,
    errors: Vec<WalkProblem>,
    truncated: bool,
}

#[derive(Serialize)]
struct WalkedEntry {
    path: FileUri,
    kind: WalkedKind,
}

#[derive(Serialize)]
struct WalkProblem {
    path: FileUri,
    message: String,
}

/// The helper's answer, as the client reads it. An answer to something else is none.
pub(super) fn result(request: &FileRequest, reply: FileReply) -> Result<Box<RawValue>, ErrorBody> {
    match (request, reply) {
        (FileRequest::Metadata { .. }, FileReply::Metadata(found)) => written(&found),
        (FileRequest::Read { .. }, FileReply::Content { bytes }) => written(&Content { data_base64: bytes }),
        (FileRequest::Blocks { .. }, FileReply::Block { bytes, eof }) => written(&BlockResult { chunk: bytes, eof }),
        (FileRequest::Canonicalize { .. }, FileReply::Path(path)) => written(&Path { path: FileUri(path) }),
        (FileRequest::List { .. }, FileReply::Entries(entries)) => written(&Entries { entries }),
        (FileRequest::Walk { .. }, FileReply::Walk(found)) => {
            let entries = found.entries.into_iter().map(|(path, kind)| WalkedEntry { path: FileUri(path), kind });
            let errors = found.errors.into_iter().map(|(path, message)| WalkProblem { path: FileUri(path), message });
            written(&WalkResult { entries: entries.collect(), errors: errors.collect(), truncated: found.truncated })
        }
        (
            FileRequest::Write { .. }
            | FileRequest::MakeDirectory { .. }
            | FileRequest::Remove { .. }
            | FileRequest::Copy { .. },
            FileReply::Done {},
        ) => written(&Nothing {}),
        (_, _) => Err(ErrorBody::internal("the helper answered something else")),
    }
}
