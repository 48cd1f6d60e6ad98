//! Telling a client how a call goes on, if it wants to know.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};

use crate::output::Output;

/// Characters of the last line of output that are shown.
const LINE: usize = 120;

/// The progress of one request.
pub(crate) struct Progress {
    wanted: Option<(Peer<RoleServer>, ProgressToken)>,
    /// It has to grow with each notification.
    last: f64,
    told: u64,
}

impl Progress {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { wanted: token.map(|token| (context.peer.clone(), token)), last: 0.0, told: 0 }
    }

    /// Tells of output that was written since.
    pub(crate) async fn written(&mut self, output: &Output) {
        let total = output.total();
        if total > self.told {
            self.told = total;
            self.tell(&format!("{total} bytes of output; last: {}", output.last_line(LINE))).await;
        }
    }

    /// Tells of something else.
    pub(crate) async fn tell(&mut self, message: &str) {
        let Some((peer, token)) = &self.wanted else { return };
        self.last += 1.0;
        let progress = ProgressNotificationParam::new(token.clone(), self.last).with_message(message);
        // A client that has gone is told nothing.
        peer.notify_progress(progress).await.ok();
    }
}
