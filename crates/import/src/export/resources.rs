//! Exports deleted resources, new ones with all their revisions, and changes of others.
//!
//! Gnocchi stamps revisions with its own time: their contents are transferred, their times are not.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use gnudi_client::uri::path;
use gnudi_indexer::{Indexer, ResourceMarker};
use gnudi_model::{AttributeValue, Resource, Text, Timestamp, resource_type::GENERIC};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    Export, ExportError,
    definitions::{Types, fits, neutral},
    earlier::{Earlier, ExportedRevisions},
    line::{ExportedRevision, Line},
    refuse_damage,
};
use crate::{
    index::{Index, SourceResource, SourceRevision, SourceType},
    merge::{self, Listing, Rows},
    target::resource_page,
};

/// Resources or revisions per page of gnudi's listing.
const PAGE_ROWS: usize = 5_000;

/// Gnocchi's resources of a type.
struct Theirs<'a> {
    index: &'a mut Index,
    of: Option<&'a SourceType>,
    /// The next ones, of which a page has a group.
    groups: VecDeque<Vec<Uuid>>,
    behind: Option<Uuid>,
}

impl Rows for Theirs<'_> {
    type Row = SourceResource;
    type Id = Uuid;
    type Error = ExportError;

    async fn page(&mut self) -> Result<Vec<SourceResource>, ExportError> {
        let Some(of) = self.of else { return Ok(Vec::new()) };
        loop {
            if self.groups.is_empty() {
                self.groups = self.index.groups_behind(of, self.behind).await?.into();
            }
            let Some(group) = self.groups.pop_front() else { return Ok(Vec::new()) };
            self.behind = group.last().copied();
            // None of them if Gnocchi has deleted the attributes of all.
            let found = self.index.resources(of, &group).await?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    fn id(row: &SourceResource) -> Uuid {
        row.id
    }
}

/// gnudi's resources of a type, each with its revisions, oldest first; the last one is current.
struct Ours<'a> {
    indexer: &'a dyn Indexer,
    of: Option<&'a str>,
    marker: Option<ResourceMarker>,
    /// Whether to read earlier revisions.
    history: bool,
    /// Revisions of the last resource of a page, of which the next page may have more.
    rest: Vec<Arc<Resource>>,
}

type Revisions = Vec<Arc<Resource>>;

impl Rows for Ours<'_> {
    type Row = Revisions;
    type Id = Uuid;
    type Error = ExportError;

    async fn page(&mut self) -> Result<Vec<Revisions>, ExportError> {
        let Some(of) = self.of else { return Ok(Vec::new()) };
        loop {
            let marker = self.marker.clone();
            let some = resource_page(self.indexer, of, None, marker, self.history, PAGE_ROWS).await?;
            refuse_damage(self.indexer)?;
            let is_end = some.is_empty();
            if let Some(last) = some.last() {
                self.marker = Some(ResourceMarker::Listed(last.clone()));
            }
            let mut rows = std::mem::take(&mut self.rest);
            // The generic listing has the resources of all types.
            rows.extend(some.into_iter().filter(|row| row.resource_type == *of));
            let mut resources: Vec<Revisions> =
                rows.chunk_by(|one, other| one.id == other.id).map(<[_]>::to_vec).collect();
            if !is_end {
                self.rest = resources.pop().unwrap_or_default();
            }
            for revisions in &mut resources {
                let is_current = |revision: &Resource| revision.revision == Resource::CURRENT;
                revisions.sort_by_key(|revision| (is_current(revision), revision.revision_start));
            }
            if is_end || !resources.is_empty() {
                return Ok(resources);
            }
        }
    }

    fn id(row: &Revisions) -> Uuid {
        row[0].id
    }
}

fn listings<'a>(
    gnocchi: &'a mut Index,
    gnudi: &'a dyn Indexer,
    of: &'a Types,
    history: bool,
) -> (Listing<Theirs<'a>>, Listing<Ours<'a>>) {
    let theirs = Theirs { index: gnocchi, of: of.gnocchi.as_ref(), groups: VecDeque::new(), behind: None };
    let name = of.gnudi.as_ref().map(|of| of.name.as_str());
    let ours = Ours { indexer: gnudi, of: name, marker: None, history, rest: Vec::new() };
    (Listing::new(theirs), Listing::new(ours))
}

/// Deletes resources that are gone in gnudi, or replaced by another one with the same id; also those that only the file
/// of earlier runs creates. All deletions precede creations: the id may now belong to a resource of another type.
pub(super) async fn write_deleted(export: &mut Export<'_>, types: &[Types]) -> Result<(), ExportError> {
    let created = export.earlier.resources.iter().filter(|(_, exported)| exported.first.is_some());
    let mut gone: BTreeSet<Uuid> = created.map(|(id, _)| *id).collect();
    let kept = &mut export.known.kept_resources;
    for of in types {
        let (mut theirs, mut ours) = listings(export.gnocchi, export.gnudi, of, true);
        loop {
            match merge::next(&mut theirs, &mut ours).await? {
                (None, None) => break,
                (Some(theirs), None) => {
                    gone.insert(theirs.id);
                }
                (Some(theirs), Some(ours)) if is_another(&theirs, &ours, &export.earlier) => {
                    gone.insert(theirs.id);
                }
                (theirs, Some(ours)) => {
                    if theirs.is_some() || created_by_file(&ours, &export.earlier).is_some() {
                        kept.insert(ours[0].id);
                    }
                }
            }
        }
    }
    // A resource of Gnocchi's index with the id of one that the file creates is deleted by the file already.
    gone.retain(|id| !kept.contains(id));
    for id in &gone {
        let line = Line::request("DELETE", format!("/v1/resource/{GENERIC}/{id}"), None);
        export.change(&line)?;
    }
    export.known.deleted_resources = gone;
    Ok(())
}

/// The revisions of gnudi's resource that the file has, if the file creates it.
fn created_by_file(ours: &Revisions, earlier: &Earlier) -> Option<ExportedRevisions> {
    let exported = earlier.resources.get(&ours[0].id).copied();
    exported.filter(|exported| exported.first == Some(ours[0].revision_start))
}

/// The newest of the revisions up to `until`.
fn newest_until(ours: &Revisions, until: Timestamp) -> Option<&Arc<Resource>> {
    ours.iter().rev().find(|revision| revision.revision_start <= until)
}

/// Whether gnudi's resource was created after the one with the same id in Gnocchi was deleted. An imported one begins
/// with the same revision; the file records those that it creates.
fn is_another(theirs: &SourceResource, ours: &Revisions, earlier: &Earlier) -> bool {
    let first = ours[0].revision_start;
    created_by_file(ours, earlier).is_none()
        && theirs.revisions.iter().all(|revision| revision.revision_start != first)
}

/// The last of gnudi's revisions that Gnocchi has: from the import, or the last one in the file. (Gnocchi's own
/// revision times of the latter are those of posting.)
fn known_until(theirs: &SourceResource, earlier: &Earlier) -> Timestamp {
    let imported = theirs.revisions.last().map_or(Timestamp::EPOCH, |revision| revision.revision_start);
    earlier.resources.get(&theirs.id).map_or(imported, |exported| exported.newest)
}

/// The fill values of attributes: what gnudi shows for a revision that Gnocchi has without a value. Attributes which no
/// revision lacks are not among them.
///
/// Another resource's value will not do. The history keeps what Gnocchi writes to all revisions at once, and no request
/// changes it.
pub(super) async fn shown_for_null(
    export: &mut Export<'_>,
    of: &Types,
    mut wanted: BTreeSet<Text>,
) -> Result<BTreeMap<Text, AttributeValue>, ExportError> {
    let mut found = BTreeMap::new();
    let (mut theirs, mut ours) = listings(export.gnocchi, export.gnudi, of, true);
    while !wanted.is_empty() {
        match merge::next(&mut theirs, &mut ours).await? {
            (None, None) => break,
            (Some(theirs), Some(ours)) if !is_another(&theirs, &ours, &export.earlier) => {
                for (theirs, ours) in same_revisions(&theirs, &ours, known_until(&theirs, &export.earlier)) {
                    let given = with_value(&theirs.attributes);
                    let lacking =
                        wanted.iter().filter(|name| of.kept(name).is_none() || !given.contains_key(*name));
                    found.extend(values_of(lacking, ours));
                }
            }
            (None, Some(ours)) => {
                let exported = created_by_file(&ours, &export.earlier);
                let last = exported.and_then(|exported| newest_until(&ours, exported.newest));
                let lacking = wanted.iter().filter(|name| of.expected(name).is_none());
                found.extend(last.map(|last| values_of(lacking, last)).into_iter().flatten());
            }
            _ => {}
        }
        wanted.retain(|name| !found.contains_key(name));
    }
    Ok(found)
}

/// The attributes among `names` that a revision has a value of.
fn values_of<'a>(
    names: impl Iterator<Item = &'a Text>,
    revision: &Resource,
) -> impl Iterator<Item = (Text, AttributeValue)> {
    let shown = with_value(&revision.attributes);
    names.filter_map(move |name| Some((name.clone(), shown.get(name)?.clone())))
}

/// The revisions that both have: imported ones begin at the same time, and the last that Gnocchi has is known.
fn same_revisions<'a>(
    theirs: &'a SourceResource,
    ours: &'a Revisions,
    until: Timestamp,
) -> impl Iterator<Item = (&'a SourceRevision, &'a Arc<Resource>)> {
    let last = newest_until(ours, until);
    let imported = theirs.revisions.iter().filter_map(|theirs| {
        let same = ours.iter().find(|ours| ours.revision_start == theirs.revision_start)?;
        Some((theirs, same))
    });
    imported.chain(theirs.revisions.last().zip(last))
}

/// Creates resources that Gnocchi lacks, and updates those that differ.
pub(super) async fn write_changed(export: &mut Export<'_>, types: &[Types]) -> Result<(), ExportError> {
    for of in types {
        let Export { gnocchi, gnudi, output, earlier, known, options, report, tell, .. } = export;
        let (mut theirs, mut ours) = listings(gnocchi, *gnudi, of, true);
        let mut changes = Changes { creator: &options.creator, of, skipped: Vec::new(), lines: Vec::new() };
        loop {
            match merge::next(&mut theirs, &mut ours).await? {
                (None, None) => break,
                (Some(_), None) => {}
                (Some(theirs), Some(ours)) if !is_another(&theirs, &ours, earlier) => {
                    known.resources.insert(theirs.id);
                    let until = known_until(&theirs, earlier);
                    let mut before = vec![State::of_source(theirs.revisions.last(), of)];
                    if earlier.resources.contains_key(&theirs.id) {
                        before.extend(newest_until(&ours, until).map(|last| State::of_file(last, of)));
                    }
                    changes.follow(before, &ours, until);
                }
                // It has taken the place of another one since `write_deleted`.
                (_, Some(ours))
                    if known.kept_resources.contains(&ours[0].id)
                        && created_by_file(&ours, earlier).is_none() => {}
                (_, Some(ours)) => {
                    known.resources.insert(ours[0].id);
                    changes.make(&ours, earlier);
                }
            }
            for line in changes.lines.drain(..) {
                report.changes += 1;
                output.write(&line)?;
            }
            report.skipped.append(&mut changes.skipped);
            tell(report);
        }
    }
    Ok(())
}

/// The changes, resource by resource.
struct Changes<'a> {
    creator: &'a str,
    of: &'a Types,
    lines: Vec<Line>,
    skipped: Vec<String>,
}

impl Changes<'_> {
    /// Creates a resource.
    fn make(&mut self, revisions: &Revisions, earlier: &Earlier) {
        let first = &revisions[0];
        if let Some(exported) = created_by_file(revisions, earlier) {
            let last = newest_until(revisions, exported.newest).unwrap_or(first);
            self.follow(vec![State::of_file(last, self.of)], revisions, exported.newest);
            return;
        }
        let state = State::of(first, self.of);
        self.report_unfit(first);
        let mut body = state.body(&[State::default()], |_| {});
        // Gnocchi demands them. A later export sets the value that is left out now.
        let own = self.of.gnudi.iter().flat_map(|of| &of.attributes);
        for (name, attribute) in own.filter(|(_, attribute)| attribute.required) {
            body.entry(name.as_str()).or_insert_with(|| value_of(&neutral(attribute.kind)));
        }
        // Posting an id that is not a UUID creates a resource that belongs to the caller.
        let is_own = first.creator == *self.creator;
        let id = if is_own { first.original_resource_id.to_string() } else { first.id.to_string() };
        body.insert("id".to_owned(), id.into());
        let of_type = path("/v1/resource/", &first.resource_type);
        let line = Line::request("POST", of_type, Some(body.into()));
        self.lines.push(Line { resource: Some(exported_revision(first, true)), ..line });
        self.follow(vec![state], revisions, first.revision_start);
    }

    /// Reports values that are left out, since they are not within the bounds of their attributes.
    fn report_unfit(&mut self, revision: &Resource) {
        let Some(of) = &self.of.gnudi else { return };
        for (name, value) in with_value(&revision.attributes) {
            let reason =
                format!("resource {}: its {name} does not fit the type: it is left out", revision.id);
            let is_unfit = of.attributes.get(&name).is_some_and(|attribute| !fits(attribute.kind, &value));
            if is_unfit && !self.skipped.contains(&reason) {
                self.skipped.push(reason);
            }
        }
    }

    /// Transfers the revisions after `until`, and finally any remaining difference. `before`: the resource in Gnocchi's
    /// index, and then as the file of earlier runs leaves it, which may not be posted yet.
    fn follow(&mut self, mut before: Vec<State>, revisions: &Revisions, until: Timestamp) {
        let later = revisions.iter().filter(|revision| revision.revision_start > until);
        for revision in later.chain(revisions.last()) {
            if revision.revision_start > until {
                self.report_unfit(revision);
            }
            let next = State::of(revision, self.of);
            let mut lost = Vec::new();
            let body = next.body(&before, |field| lost.push(field.to_owned()));
            for field in lost {
                self.skipped.push(format!(
                    "resource {}: {field} has no value any more, which Gnocchi's API cannot express: it keeps the one it has",
                    revision.id
                ));
            }
            before = vec![next];
            if !body.is_empty() {
                let of_resource = path("/v1/resource/", &revision.resource_type);
                let path = format!("{of_resource}/{}", revision.id);
                let line = Line::request("PATCH", path, Some(body.into()));
                self.lines.push(Line { resource: Some(exported_revision(revision, false)), ..line });
            }
        }
    }
}

fn exported_revision(revision: &Resource, is_first: bool) -> ExportedRevision {
    ExportedRevision { id: revision.id, start: revision.revision_start.0, is_first }
}

type TimeOf = fn(&State) -> Option<Timestamp>;
type TextOf = fn(&State) -> Option<&str>;

/// The part of a resource that a request can set.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    user_id: Option<String>,
    project_id: Option<String>,
    /// Non-null attributes.
    attributes: BTreeMap<Text, AttributeValue>,
}

impl State {
    /// A resource of gnudi. What its type got after that was listed, attributes or wider bounds, is left to the next export.
    fn of(resource: &Resource, of: &Types) -> Self {
        let text = |text: &Option<Text>| text.as_ref().map(ToString::to_string);
        let mut attributes = with_value(&resource.attributes);
        attributes.retain(|name, value| of.accepts(name, value));
        Self {
            started_at: Some(resource.started_at),
            ended_at: resource.ended_at,
            user_id: text(&resource.user_id),
            project_id: text(&resource.project_id),
            attributes,
        }
    }

    /// A resource of gnudi as the file of earlier runs leaves it, after its type was changed to gnudi's.
    fn of_file(resource: &Resource, of: &Types) -> Self {
        let mut state = Self::of(resource, of);
        state.attributes.retain(|name, value| of.expected(name).is_some_and(|of| fits(of.kind, value)));
        state.fill(of);
        state
    }

    /// A resource of Gnocchi, after its type was changed to gnudi's.
    fn of_source(revision: Option<&SourceRevision>, of: &Types) -> Self {
        let Some(revision) = revision else { return Self::default() };
        let mut attributes = with_value(&revision.attributes);
        attributes.retain(|name, value| of.kept(name).is_some() && of.accepts(name, value));
        let mut state = Self {
            started_at: Some(revision.started_at),
            ended_at: revision.ended_at,
            user_id: revision.user_id.clone(),
            project_id: revision.project_id.clone(),
            attributes,
        };
        state.fill(of);
        state
    }

    /// Adds what Gnocchi fills in.
    fn fill(&mut self, of: &Types) {
        for (name, fill) in &of.fills {
            self.attributes.entry(name.clone()).or_insert_with(|| fill.clone());
        }
    }

    /// The body of a request that changes each of `before` to this. `lost` is called for fields of the last one whose
    /// value no request can remove.
    fn body(&self, before: &[State], mut lost: impl FnMut(&str)) -> Map<String, Value> {
        let mut body = Map::new();
        let last = before.last();
        let times: [(&str, TimeOf); 2] =
            [("started_at", |state| state.started_at), ("ended_at", |state| state.ended_at)];
        for (name, of) in times {
            match of(self) {
                Some(time) if before.iter().any(|before| of(before) != Some(time)) => {
                    body.insert(name.to_owned(), time.to_iso_micros().into());
                }
                None if last.is_some_and(|last| of(last).is_some()) => lost(name),
                _ => {}
            }
        }
        let owners: [(&str, TextOf); 2] = [
            ("user_id", |state| state.user_id.as_deref()),
            ("project_id", |state| state.project_id.as_deref()),
        ];
        for (name, of) in owners {
            if before.iter().any(|before| of(before) != of(self)) {
                body.insert(name.to_owned(), of(self).into());
            }
        }
        for (name, value) in &self.attributes {
            if before.iter().any(|before| before.attributes.get(name) != Some(value)) {
                body.insert(name.to_string(), value_of(value));
            }
        }
        let names = last.into_iter().flat_map(|last| last.attributes.keys());
        for name in names.filter(|name| !self.attributes.contains_key(*name)) {
            lost(name);
        }
        body
    }
}

fn with_value(attributes: &BTreeMap<Text, AttributeValue>) -> BTreeMap<Text, AttributeValue> {
    let given = attributes.iter().filter(|(_, value)| **value != AttributeValue::Null);
    given.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A value in a request.
pub(super) fn value_of(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Null => Value::Null,
        AttributeValue::String(text) => text.as_str().into(),
        AttributeValue::Uuid(id) => id.to_string().into(),
        AttributeValue::Number(number) => (*number).into(),
        AttributeValue::Bool(flag) => (*flag).into(),
        AttributeValue::Datetime(time) => time.to_iso_micros().into(),
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Attribute, AttributeKind, ResourceType};

    use super::*;
    use crate::export::expected::ExpectedType;

    fn state(user: &str, ended_at: Option<i64>, host: Option<&str>) -> State {
        let attributes = host.map(|host| ("host".into(), AttributeValue::String(host.into())));
        State {
            started_at: Some(Timestamp::EPOCH),
            ended_at: ended_at.map(Timestamp),
            user_id: Some(user.to_owned()),
            project_id: None,
            attributes: attributes.into_iter().collect(),
        }
    }

    #[test]
    fn a_change_that_the_file_makes_is_taken_back() {
        let (indexed, filed) = (state("a", None, Some("x")), state("b", Some(5_000), Some("y")));
        let body = |now: &State, before: &[State]| {
            let mut lost = Vec::new();
            let body = now.body(before, |field| lost.push(field.to_owned()));
            let names = body.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
            (names, lost.join(" "))
        };
        // The end that the file sets cannot be removed.
        assert_eq!(
            body(&indexed, &[indexed.clone(), filed.clone()]),
            ("user_id host".to_owned(), "ended_at".to_owned())
        );
        // What the file sets, and the index has not yet, is repeated.
        let (names, lost) = body(&filed, &[indexed.clone(), filed.clone()]);
        assert_eq!((names.as_str(), lost.as_str()), ("ended_at user_id host", ""));
        // A value that the file does not leave there was reported before.
        let without = state("a", None, None);
        assert_eq!(body(&without, &[indexed.clone(), without.clone()]).1, "");
        assert_eq!(body(&without, &[without.clone(), indexed.clone()]).1, "host");
        assert_eq!(body(&indexed, std::slice::from_ref(&indexed)).0, "");
    }

    #[test]
    fn an_attribute_that_the_type_got_meanwhile_is_left_to_the_next_export() {
        let attribute = |name: &str| {
            (Text::from(name), Attribute { kind: AttributeKind::Bool, required: false, fill: None })
        };
        let listed = ["known", "new"].map(attribute).into();
        let ours = Arc::new(ResourceType { name: "machine".into(), attributes: listed });
        let attributes = [attribute("known")].into();
        let theirs = ExpectedType { stored: None, attributes, replaced: BTreeSet::new() };
        let of = Types::new(Some(theirs), Some(ours));
        let given = |name: &str| (Text::from(name), AttributeValue::Bool(true));
        let attributes = ["known", "late", "new"].map(given).into();
        let resource = Resource { attributes, ..Resource::new(Uuid::from_u128(1), "machine") };
        let state = State::of(&resource, &of);
        assert!(state.attributes.keys().eq(["known", "new"].map(Text::from).iter()));
        // The file of earlier runs had not the new one yet, as this run has not the late one.
        let body = state.body(&[State::of_file(&resource, &of)], |_| panic!("nothing is lost"));
        assert_eq!(Value::from(body), serde_json::json!({"new": true}));
    }

    #[test]
    fn a_value_beyond_the_bounds_is_left_to_the_next_export() {
        let host = |max_length| {
            let kind = AttributeKind::String { min_length: 1, max_length };
            BTreeMap::from([(Text::from("host"), Attribute { kind, required: true, fill: None })])
        };
        let types = |expected, listed| {
            let theirs = ExpectedType { stored: None, attributes: host(expected), replaced: BTreeSet::new() };
            Types::new(
                Some(theirs),
                Some(Arc::new(ResourceType { name: "machine".into(), attributes: host(listed) })),
            )
        };
        let attributes = BTreeMap::from([("host".into(), AttributeValue::String("twelve".into()))]);
        let resource = Arc::new(Resource { attributes, ..Resource::new(Uuid::from_u128(1), "machine") });
        // The bounds were widened since the type was listed.
        let of = types(5, 5);
        let mut changes = Changes { creator: "", of: &of, skipped: Vec::new(), lines: Vec::new() };
        changes.make(&vec![resource.clone()], &Earlier::default());
        let [line] = &changes.lines[..] else { panic!("one request") };
        assert!(line.body.as_ref().unwrap().get().contains(r#""host":" ""#));
        assert_eq!(changes.skipped.len(), 1);
        let of = types(5, 12);
        let body =
            State::of(&resource, &of).body(&[State::of_file(&resource, &of)], |_| panic!("nothing is lost"));
        assert_eq!(Value::from(body), serde_json::json!({"host": "twelve"}));
    }
}
