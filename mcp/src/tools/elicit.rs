//! Asking the person behind a client while a call is under way.

use rmcp::RoleServer;
use rmcp::model::{ClientResult, ElicitRequest, ServerRequest};
use rmcp::service::{PeerRequestOptions, RequestContext};
use tokio::sync::oneshot;

use super::Tools;
use crate::asking;
use crate::call::Call;
use crate::link::Question;

impl Tools {
    /// Asks by an elicitation. The call goes on beside it: another client may answer first.
    pub(super) async fn elicit(&self, call: &mut Call, question: Question, context: &RequestContext<RoleServer>) {
        let text = self.wording.question(&question.params.request);
        let Ok(form) = asking::form(&question.params.request, &text) else {
            return self.refer(call, question).await;
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let sent = context.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let Ok(mut asked) = sent else { return self.refer(call, question).await };
        let (guard, withdrawn) = oneshot::channel();
        call.asked.insert(question.params.question_id.clone(), guard);
        let link = self.link.clone();
        tokio::spawn(async move {
            tokio::select! {
                answer = &mut asked.rx => {
                    match answer {
                        Ok(Ok(ClientResult::ElicitResult(result))) => link.settle(&question, &result.into()).await,
                        // What is no answer is a no.
                        Ok(Ok(_)) => link.deny(&question, "the MCP client's answer can't be read"),
                        Ok(Err(error)) => link.deny(&question, &format!("the MCP client could not ask: {error}")),
                        Err(_) => {}
                    }
                }
                // It was answered elsewhere, or the call has ended.
                _ = withdrawn => drop(asked.cancel(Some(String::from("it needs no answer any more"))).await),
            }
        });
    }
}
