//! The tools: what a client is told of them, and how a call goes on from its request to its result.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequest, ErrorData, Implementation, InputRequest,
    InputRequests, InputRequiredResult, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool as ToolForm, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use stockade_core::Explanation;
use stockade_protocol::ReviewDecision;
use stockade_server::wire::CommandExplainParams;

use crate::arguments::{
    ExplainArguments, OutputArguments, PatchArguments, PermissionsArguments, RunArguments, Tool, escalation,
    output_bytes, path, words,
};
use crate::asking::{self, Answer};
use crate::call::{Call, CallError, Granted};
use crate::link::{Event, Link, Question};
use crate::output::Outputs;
use crate::parked::{Parked, Waiting};
use crate::progress::Progress;
use crate::report::{self, ExplainReport, OutputReport, PatchReport, PermissionsReport, RunReport};
use crate::{QuestionsTo, Wording};

mod elicit;

/// How often a client is told how a call goes on.
const TELL: Duration = Duration::from_millis(500);

/// The key of the one question of an `input_required` result.
const QUESTION: &str = "approval";

const INSTRUCTIONS: &str = "Commands run in Stockade's sandbox: they may write the workspace and a private /tmp, read most \
files but no credentials, and reach no network unless it was granted. Run commands with `run`. A result says what was denied and what \
would allow it. If a command needs more, ask for it with `request_permissions`: a person decides, not you. Change files with \
`apply_patch` or with commands. `explain` says what would happen to a command without running it.";

/// The tools of one client.
pub(crate) struct Tools {
    link: Link,
    session_name: String,
    questions: QuestionsTo,
    wording: Arc<dyn Wording>,
    outputs: Outputs,
    granted: Granted,
    parked: Parked,
}

/// How a client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By a request while the call is under way.
    Elicitation,
    /// By the end of the call: the client calls again with the answer.
    InputRequired,
    /// Not at all.
    None,
}

impl Tools {
    pub(crate) fn new(link: Link, session_name: String, questions: QuestionsTo, wording: Arc<dyn Wording>) -> Self {
        let (outputs, granted, parked) = Default::default();
        Self { link, session_name, questions, wording, outputs, granted, parked }
    }

    fn way(&self, context: &RequestContext<RoleServer>) -> Way {
        let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A capability without a word of modes is the older one, which has forms.
        let has_forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        if self.questions == QuestionsTo::Others || !has_forms {
            return Way::None;
        }
        match context.protocol_version() {
            Some(version) if version >= ProtocolVersion::V_2026_07_28 => Way::InputRequired,
            _ => Way::Elicitation,
        }
    }

    /// Begins a call. What is over at once is a result already.
    async fn begin(&self, tool: Tool) -> Result<Result<Call, CallToolResult>, CallError> {
        Ok(match tool {
            Tool::Run(arguments) => Ok(Call::run(&self.link, &self.outputs, &self.wording, &self.granted, &arguments)?),
            Tool::ApplyPatch(arguments) => Ok(Call::patch(&self.link, arguments)),
            Tool::RequestPermissions(arguments) => Ok(Call::permissions(&self.link, &self.granted, &arguments)?),
            Tool::Explain(arguments) => Err(self.explain(&arguments).await?),
            Tool::ReadOutput(arguments) => Err(self.read_output(&arguments)),
        })
    }

    async fn explain(&self, arguments: &ExplainArguments) -> Result<CallToolResult, CallError> {
        let command = words(arguments.command.as_ref(), arguments.argv.as_ref(), &*self.wording)?;
        let cwd = arguments.cwd.as_deref().map(|cwd| path("cwd", cwd, self.link.cwd())).transpose()?;
        let params = CommandExplainParams {
            session_id: self.link.session_id().clone(),
            command,
            cwd,
            escalation: escalation(arguments.unsandboxed),
        };
        let explanation: Explanation = self.link.call("command/explain", &params).await?;
        Ok(report::explained(&explanation, &*self.wording))
    }

    fn read_output(&self, arguments: &OutputArguments) -> CallToolResult {
        match self.outputs.find(&arguments.handle) {
            Some(output) => report::read(output.part(arguments.offset, output_bytes(arguments.max_bytes))),
            None => report::refused("there is no such output, or it is not kept any more: run the command again"),
        }
    }

    /// Carries a call on until it ends, or until the client has to come back with an answer.
    async fn carry_on(
        &self,
        mut call: Call,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut progress = Progress::of(context);
        let mut ticks = tokio::time::interval(TELL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                // Its command is ended by the drop of the call.
                () = context.ct.cancelled() => return Ok(report::refused("the call was cancelled").into()),
                event = call.events.recv(), if !call.events.is_closed() => match event {
                    Some(Event::Asked(question)) => {
                        progress.tell("waits for a person's answer").await;
                        match self.way(context) {
                            Way::InputRequired => return Ok(self.park(call, question, request)),
                            Way::Elicitation => self.elicit(&mut call, question, context).await,
                            Way::None => self.refer(&mut call, question).await,
                        }
                    }
                    Some(Event::Resolved(id)) => drop(call.asked.remove(&id)),
                    None => {}
                },
                mut result = &mut call.work => {
                    call.is_finished = true;
                    if call.unasked {
                        report::add(&mut result, &self.how_to_be_asked());
                    }
                    return Ok(result.into());
                }
                _ = ticks.tick() => if let Some(output) = &call.output {
                    progress.written(output).await;
                },
            }
        }
    }

    fn how_to_be_asked(&self) -> String {
        format!(
            "a person could not be asked: this MCP client puts no questions to one, and no one attends the session. A person can \
             run `stockade session attend {}` in a terminal and have the call repeated, or allow it in the settings",
            self.session_name
        )
    }

    /// Leaves a question to the session's other clients, if there are any.
    async fn refer(&self, call: &mut Call, question: Question) {
        if self.link.other_clients().await.is_ok_and(|count| count > 0) {
            return self.link.leave(&question);
        }
        call.unasked = true;
        let reason = Some(String::from("no person could be asked"));
        self.link.answer(&question, ReviewDecision::Denied { reason });
    }

    /// Has a call wait for the client to come back with an answer.
    fn park(&self, call: Call, question: Question, request: &CallToolRequestParams) -> CallToolResponse {
        let text = self.wording.question(&question.params.request);
        let form = match asking::form(&question.params.request, &text) {
            Ok(form) => form,
            Err(error) => return report::refused(&error.to_string()).into(),
        };
        let (name, arguments) = (request.name.to_string(), request.arguments.clone());
        match self.parked.park(Waiting { call, question, name, arguments }) {
            Ok(state) => {
                let question = InputRequest::Elicitation(ElicitRequest::new(form));
                let questions = InputRequests::from([(String::from(QUESTION), question)]);
                InputRequiredResult::new(Some(questions), Some(state)).into()
            }
            Err((why, waiting)) => {
                let denied = ReviewDecision::Denied { reason: Some(why.to_string()) };
                self.link.answer(&waiting.question, denied);
                report::refused(&why.to_string()).into()
            }
        }
    }

    /// The call that a client comes back to with an answer.
    async fn come_back(
        &self,
        state: &str,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let taken = self.parked.take(state, &request.name, request.arguments.as_ref());
        let Waiting { call, question, .. } =
            taken.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let answers = request.input_responses.as_ref();
        match answers.and_then(|answers| answers.get(QUESTION)).cloned().map(Answer::read) {
            Some(Some(answer)) => self.link.settle(&question, &answer).await,
            // What is no answer is a no, as in an elicitation.
            Some(None) => self.link.deny(&question, "the MCP client's answer can't be read"),
            // Without an answer the question stands.
            None => return Ok(self.park(call, question, request)),
        }
        self.carry_on(call, request, context).await
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("stockade", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(forms()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(state) = &request.request_state {
            return self.come_back(state, &request, &context).await;
        }
        let arguments = request.arguments.as_ref().map(serde_json::to_string).transpose();
        let arguments = arguments.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let tool = match Tool::read(&request.name, arguments.as_deref().unwrap_or("{}")) {
            Ok(tool) => tool,
            Err(unknown @ crate::ArgumentsError::UnknownTool(_)) => {
                return Err(ErrorData::invalid_params(unknown.to_string(), None));
            }
            Err(error) => return Ok(report::refused(&error.to_string()).into()),
        };
        self.parked.end_repeated(&request.name, request.arguments.as_ref());
        match self.begin(tool).await {
            Ok(Ok(call)) => self.carry_on(call, &request, &context).await,
            Ok(Err(result)) => Ok(result.into()),
            Err(CallError::Arguments(error)) => Ok(report::refused(&error.to_string()).into()),
            Err(CallError::Session(error)) => Ok(report::failed(&error).into()),
        }
    }
}

/// What a client is told of the tools.
fn forms() -> Vec<ToolForm> {
    let hints = |read_only, destructive| ToolAnnotations::new().read_only(read_only).destructive(destructive);
    vec![
        form::<RunArguments, RunReport>(
            "run",
            "Run a command in Stockade's sandbox and wait for its end. The result has the exit code, the output, and what the \
             sandbox denied, with what would allow it. A person may be asked before it runs, or after a denial. Each call starts \
             in the workspace with a new shell: a `cd` does not last. Processes that are left in the background end with the \
             command.",
        )
        .with_annotations(hints(false, true)),
        form::<ExplainArguments, ExplainReport>(
            "explain",
            "Say what would happen to a command, without running it: whether it runs, is asked about or is refused, by which \
             rule, and what it may read, write and reach.",
        )
        .with_annotations(hints(true, false)),
        form::<PatchArguments, PatchReport>(
            "apply_patch",
            "Change files by a unified diff or by codex's patch envelope (`*** Begin Patch`): all of it or nothing. In the \
             workspace it is written unasked; outside of it a person is asked.",
        )
        .with_annotations(hints(false, true)),
        form::<PermissionsArguments, PermissionsReport>(
            "request_permissions",
            "Ask the person for more than the sandbox grants: files or directories to read or write, hosts to reach. Ask for the \
             least that does, and say why in `justification`. The person decides.",
        )
        .with_annotations(hints(false, false)),
        form::<OutputArguments, OutputReport>(
            "read_output",
            "Read output of a command that its result left out, by the `output_handle` of the result and an offset. The last \
             4 MiB of each of the last 16 commands are kept.",
        )
        .with_annotations(hints(true, false)),
    ]
}

fn form<A: JsonSchema, R: JsonSchema>(name: &'static str, description: &'static str) -> ToolForm {
    let (input, output) = (SchemaSettings::draft2020_12(), SchemaSettings::draft2020_12().for_serialize());
    ToolForm::new(name, description, schema::<A>(input)).with_raw_output_schema(Arc::new(schema::<R>(output)))
}

/// A schema as MCP has it: an object, complete in itself.
fn schema<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    // Clients complain of formats that no standard has, such as `uint64`.
    let standard = RecursiveTransform(|schema: &mut Schema| {
        schema.remove("format");
        if schema.get("default").is_some_and(serde_json::Value::is_null) {
            schema.remove("default");
        }
    });
    let schema = settings.with_transform(standard).into_generator().into_root_schema_for::<T>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.remove("title");
    schema.remove("description");
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_precise_schemas() {
        for form in forms() {
            let input = form.schema_as_json_value();
            assert_eq!(input["type"], "object", "{input}");
            assert_eq!(input["additionalProperties"], false, "{}", form.name);
            for (field, schema) in input["properties"].as_object().unwrap() {
                assert!(schema["description"].is_string(), "{} {field}", form.name);
            }
            let output = form.output_schema.as_ref().unwrap();
            assert_eq!(output["type"], "object", "{output:?}");
            assert!(Tool::read(&form.name, r#"{"no such field":1}"#).is_err());
        }
    }
}
