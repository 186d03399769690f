//! Buckets and requests of each project in Ceph's object gateway, from its admin API.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_http::{Bytes, HttpClient, Request, StatusCode, Uri};
use serde_json::{Map, Value};

use super::aws_signature::{self, Keys};
use crate::{
    polling::{
        cloud::{Cloud, CloudError},
        cycle::Cycle,
        outlet::Outlet,
        pollster::{FailingResources, Meter, Polled, Pollster, owned},
        resource::Resource,
    },
    time::now,
};

/// Sizes are reported in KiB.
const SIZE_UNIT_BYTES: i64 = 1024;

/// How to find and authenticate with the gateway.
#[derive(Clone)]
pub struct RadosgwOptions {
    /// Its type in the catalogue.
    pub service_type: Option<String>,
    /// Its name there: Swift may have the same type.
    pub service_name: Option<String>,
    /// Of the gateway's administrator.
    pub keys: Keys,
    /// Whether each project has its own tenant in the gateway.
    pub implicit_tenants: bool,
    pub http: HttpClient,
}

#[derive(Clone, Copy)]
enum RadosgwFigure {
    Objects,
    Bytes,
    Buckets,
    BucketObjects,
    BucketBytes,
    Requests,
}

const METERS: [(Meter, RadosgwFigure); 6] = [
    (Meter::gauge("radosgw.objects", "object"), RadosgwFigure::Objects),
    (Meter::gauge("radosgw.objects.size", "B"), RadosgwFigure::Bytes),
    (Meter::gauge("radosgw.objects.containers", "object"), RadosgwFigure::Buckets),
    (Meter::gauge("radosgw.containers.objects", "object"), RadosgwFigure::BucketObjects),
    (Meter::gauge("radosgw.containers.objects.size", "B"), RadosgwFigure::BucketBytes),
    (Meter::gauge("radosgw.api.request", "request"), RadosgwFigure::Requests),
];

struct RadosgwAccount {
    meter: Meter,
    figure: RadosgwFigure,
    cloud: Cloud,
    options: Arc<RadosgwOptions>,
    failing: FailingResources,
}

/// A bucket's usage in one category of data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    name: String,
    objects: i64,
    bytes: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Buckets {
    count: usize,
    parts: Vec<Bucket>,
}

pub(super) fn pollsters(cloud: &Cloud, options: &RadosgwOptions) -> Vec<Arc<dyn Pollster>> {
    let options = Arc::new(options.clone());
    let account = |(meter, figure)| {
        let (cloud, options, failing) = (cloud.clone(), Arc::clone(&options), FailingResources::default());
        Arc::new(RadosgwAccount { meter, figure, cloud, options, failing }) as Arc<dyn Pollster>
    };
    METERS.into_iter().map(account).collect()
}

impl RadosgwAccount {
    /// The response to `GET /admin/WHAT` for a project, read; `None` for an unknown project. `kind` is what it should be.
    async fn admin_get<T>(
        &self,
        what: &str,
        project: &str,
        query: &[(&str, &str)],
        read: fn(&Value) -> Option<T>,
        kind: &str,
    ) -> Result<Option<T>, CloudError> {
        let RadosgwOptions { service_type, service_name, keys, implicit_tenants, http } = &*self.options;
        let endpoint = self.cloud.endpoint_named(service_type.as_deref(), service_name.as_deref()).await?;
        let failed = |error: String| CloudError::Failed(format!("{endpoint}: {error}"));
        let uri: Uri = endpoint.parse().map_err(|_| failed("not an address".to_owned()))?;
        let (scheme, authority) = (uri.scheme_str().unwrap_or("http"), uri.authority());
        let authority = authority.ok_or_else(|| failed("not an address".to_owned()))?.as_str();
        let user = if *implicit_tenants { format!("{project}${project}") } else { project.to_owned() };
        let mut query = query.to_vec();
        query.push(("uid", &user));
        let path = format!("/admin/{what}");
        let url = format!("{scheme}://{authority}{path}?{}", aws_signature::encoded(&query));
        let host = match (scheme, authority.rsplit_once(':')) {
            ("http", Some((host, "80"))) | ("https", Some((host, "443"))) => host,
            _ => authority,
        };
        let mut request = Request::get(&url).header("accept", "application/json").header("host", host);
        for (name, value) in aws_signature::headers(keys, host, &path, &query, now()) {
            request = request.header(name, value);
        }
        let request = request.body(Bytes::new()).map_err(|error| failed(error.to_string()))?;
        let _place = self.cloud.place().await;
        let answer = http.send(request).await.map_err(|error| failed(error.to_string()))?;
        let answer = match answer.status {
            StatusCode::OK if answer.body.is_empty() => Value::Object(Map::new()),
            StatusCode::OK => serde_json::from_slice(&answer.body)
                .map_err(|error| CloudError::Failed(format!("{url}: {error}")))?,
            StatusCode::NOT_FOUND => return Ok(None),
            status => {
                return Err(CloudError::Refused { url, status: status.as_u16(), text: answer.text() });
            }
        };
        read(&answer).map(Some).ok_or_else(|| CloudError::Failed(format!("{project}: not a {kind}")))
    }

    /// Resources with their volumes; `None` for an unknown project.
    async fn volumes(&self, cycle: &Cycle, project: &str) -> Result<Option<Vec<(String, i64)>>, CloudError> {
        let own = |volume: i64| vec![(project.to_owned(), volume)];
        if let RadosgwFigure::Requests = self.figure {
            let requests = self.admin_get("usage", project, &[], requests, "summary of requests");
            return Ok(requests.await?.map(own));
        }
        let ask = || self.admin_get("bucket", project, &[("stats", "true")], buckets, "list of buckets");
        let found = cycle.shared(format!("radosgw buckets {project}"), ask).await;
        let Some(buckets) = found.as_ref().as_ref().map_err(Clone::clone)? else { return Ok(None) };
        let sum = |of: fn(&Bucket) -> i64| buckets.parts.iter().map(of).fold(0, i64::saturating_add);
        let each = |of: fn(&Bucket) -> i64| {
            buckets.parts.iter().map(|bucket| (format!("{project}/{}", bucket.name), of(bucket))).collect()
        };
        Ok(Some(match self.figure {
            RadosgwFigure::Objects => own(sum(|bucket| bucket.objects)),
            RadosgwFigure::Bytes => own(sum(|bucket| bucket.bytes)),
            RadosgwFigure::Buckets => own(buckets.count as i64),
            RadosgwFigure::BucketObjects => each(|bucket| bucket.objects),
            RadosgwFigure::BucketBytes => each(|bucket| bucket.bytes),
            RadosgwFigure::Requests => Vec::new(),
        }))
    }
}

/// `[{"bucket": "b", "usage": {"rgw.main": {"num_objects": 1, "size_kb": 2}}}]`
fn buckets(answer: &Value) -> Option<Buckets> {
    let list = match answer {
        Value::Object(map) if map.is_empty() => return Some(Buckets::default()),
        answer => answer.as_array()?,
    };
    let mut buckets = Buckets { count: list.len(), parts: Vec::new() };
    for bucket in list {
        let name = bucket.get("bucket")?.as_str()?;
        for part in bucket.get("usage")?.as_object()?.values() {
            let objects = part.get("num_objects")?.as_i64()?;
            let bytes = part.get("size_kb")?.as_i64()?.saturating_mul(SIZE_UNIT_BYTES);
            buckets.parts.push(Bucket { name: name.to_owned(), objects, bytes });
        }
    }
    Some(buckets)
}

/// `{"summary": [{"total": {"ops": 1}}]}`
fn requests(answer: &Value) -> Option<i64> {
    let summary = answer.get("summary")?.as_array()?;
    summary
        .iter()
        .try_fold(0_i64, |sum, user| Some(sum.saturating_add(user.pointer("/total/ops")?.as_i64()?)))
}

#[async_trait]
impl Pollster for RadosgwAccount {
    fn name(&self) -> &str {
        match self.figure {
            RadosgwFigure::Requests => "radosgw.usage",
            _ => self.meter.name,
        }
    }

    fn default_discovery(&self) -> Option<&str> {
        Some("tenant")
    }

    async fn poll(&self, cycle: &Cycle, resources: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        let mut failures = self.failing.failures();
        for project in self.failing.last_of(resources) {
            let answer = match self.volumes(cycle, &project.id).await {
                Ok(None) => {
                    tracing::debug!(project = %project.id, "radosgw does not know the project");
                    continue;
                }
                Err(CloudError::NoService(service)) => {
                    tracing::warn!(service, meter = self.name(), "the catalogue has no such service");
                    return Ok(());
                }
                answer => failures.checked(self.name(), &project.id, answer)?,
            };
            for (id, volume) in answer.flatten().into_iter().flatten() {
                let mut sample = self.meter.sample(id, volume.into(), Map::new());
                sample.project_id = owned(Some(&project.id));
                outlet.push(sample).await?;
            }
        }
        failures.outcome()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = json!([
            {"bucket": "b", "usage": {"rgw.main": {"num_objects": 3, "size_kb": 2}, "rgw.multimeta": {"num_objects": 1, "size_kb": 0}}},
            {"bucket": "empty", "usage": {}},
        ]);
        let found = buckets(&answer).unwrap();
        assert_eq!((found.count, found.parts.len()), (2, 2));
        assert_eq!(found.parts[0], Bucket { name: "b".to_owned(), objects: 3, bytes: 2048 });
        assert_eq!(buckets(&json!({})), Some(Buckets::default()));
        assert_eq!(buckets(&json!([{"bucket": "b"}])), None);
        assert_eq!(requests(&json!({"summary": [{"total": {"ops": 5}}, {"total": {"ops": 7}}]})), Some(12));
        assert_eq!(requests(&json!({"entries": []})), None);
    }
}
