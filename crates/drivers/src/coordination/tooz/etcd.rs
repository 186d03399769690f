//! tooz' groups on etcd: a key per group, and below it a key per member, attached to the member's lease.

use std::time::Duration;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{CAPABILITIES, GroupMember, Groups};
use crate::{
    OpenError,
    coordination::{
        CoordinationError,
        etcd::{
            EtcdOptions,
            client::{Client, delete, put, put_bytes, unchanged},
        },
    },
};

const PREFIX: &str = "tooz/groups/";

pub struct EtcdGroups {
    client: Client,
    id: String,
    lease_length: Duration,
    /// 0 if there is none.
    lease: Mutex<u64>,
}

impl EtcdGroups {
    /// `id`: this member's; `lease`: how long it counts as alive without a heartbeat, in whole seconds. Sends
    /// nothing yet.
    pub fn open(options: &EtcdOptions, id: &str, lease: Duration) -> Result<Self, OpenError> {
        let failed = |reason| OpenError::Engine { engine: options.endpoints.join(", "), reason };
        let client = Client::new(options).map_err(failed)?;
        Ok(EtcdGroups { client, id: id.to_owned(), lease_length: lease, lease: Mutex::default() })
    }

    fn member_key(&self, group: &str) -> String {
        format!("{PREFIX}{group}/{}", self.id)
    }
}

fn group_key(group: &str) -> String {
    format!("{PREFIX}{group}/")
}

#[async_trait]
impl Groups for EtcdGroups {
    async fn beat(&self) -> Result<(), CoordinationError> {
        let mut lease = self.lease.lock().await;
        if *lease != 0 && self.client.keep_lease(*lease).await? {
            return Ok(());
        }
        // The keys of the expired lease are gone: `members` lacks this member, and it joins again.
        *lease = self.client.grant_lease(self.lease_length).await?;
        Ok(())
    }

    async fn join(&self, group: &str) -> Result<(), CoordinationError> {
        let lease = *self.lease.lock().await;
        if lease == 0 {
            return Err(CoordinationError::Expired);
        }
        let key = group_key(group);
        // tooz writes the key as its value.
        self.client.transact(vec![unchanged(&key, 0)], vec![put(&key, &key, 0)], Vec::new()).await?;
        let enter = put_bytes(&self.member_key(group), CAPABILITIES, lease);
        self.client.transact(Vec::new(), vec![enter], Vec::new()).await.map(drop)
    }

    async fn leave(&self, groups: &[String]) -> Result<(), CoordinationError> {
        for group in groups {
            self.client.transact(Vec::new(), vec![delete(&self.member_key(group))], Vec::new()).await?;
        }
        let lease = std::mem::take(&mut *self.lease.lock().await);
        if lease != 0 {
            self.client.revoke_lease(lease).await?;
        }
        Ok(())
    }

    async fn members(&self, group: &str) -> Result<Vec<GroupMember>, CoordinationError> {
        let prefix = group_key(group);
        // The slash's successor ends the range of the prefix.
        let end = format!("{PREFIX}{group}0");
        let range = json!({ "key": STANDARD.encode(&prefix), "range_end": STANDARD.encode(end) });
        let found = self.client.post("/v3/kv/range", &range).await?.unwrap_or_default();
        let member = |found: &Value| {
            let bytes = |name: &str| STANDARD.decode(found[name].as_str().unwrap_or_default()).ok();
            let id = bytes("key")?.strip_prefix(prefix.as_bytes())?.to_vec();
            // Skip the group's own key.
            (!id.is_empty()).then_some(GroupMember::new(id, &bytes("value")?))
        };
        let found = found["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut members: Vec<GroupMember> = found.iter().filter_map(member).collect();
        members.sort();
        Ok(members)
    }
}
