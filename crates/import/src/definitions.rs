//! Copies Gnocchi's archive policies, rules and resource types to the target: creates, changes and deletes them there.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use gnudi_indexer::{
    Comparison, Filter, FilterValue, Indexer, IndexerError, PolicyChange, ResourceMarker, ResourceTypeChange,
};
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, Attribute, AttributeValue, Resource, ResourceType, Text, Timestamp,
    resource_type::GENERIC,
};
use uuid::Uuid;

use crate::{
    ImportError, Report, Target,
    index::{IDS_AT_ONCE, Index, SourceResource, SourceRevision, SourceType},
    target::resource_page,
};

/// Refuses a target with a different policy or type of the same name, before anything is written. Policies may always
/// differ in their timespans. `is_continued`: the target's are from an earlier import, and follow those of Gnocchi.
pub(crate) async fn refuse_others(
    target: Target<'_>,
    policies: &[ArchivePolicy],
    types: &[SourceType],
    is_continued: bool,
) -> Result<(), ImportError> {
    if is_continued {
        return Ok(());
    }
    for policy in policies {
        let there = target.indexer.archive_policy(&policy.name).await?;
        if there.is_some_and(|there| !may_become(&there, policy, false)) {
            return Err(ImportError::OtherArchivePolicy(policy.name.clone()));
        }
    }
    for SourceType { resource_type, .. } in types {
        let there = target.indexer.resource_type(&resource_type.name).await?;
        if there.is_some_and(|there| there.attributes != resource_type.attributes) {
            return Err(ImportError::OtherResourceType(resource_type.name.to_string()));
        }
    }
    Ok(())
}

/// Deletes policies that Gnocchi has deleted and created again with other granularities or methods, and their rules, which
/// are created again, too. Their metrics are deleted there, so they must be in the target.
pub(crate) async fn delete_replaced(
    target: Target<'_>,
    policies: &[ArchivePolicy],
) -> Result<(), ImportError> {
    let rules = target.indexer.archive_policy_rules().await?;
    for policy in policies {
        let there = target.indexer.archive_policy(&policy.name).await?;
        if there.is_none_or(|there| may_become(&there, policy, true)) {
            continue;
        }
        for rule in rules.iter().filter(|rule| rule.archive_policy_name == policy.name) {
            target.indexer.delete_archive_policy_rule(&rule.name).await?;
        }
        target.indexer.delete_archive_policy(&policy.name).await?;
    }
    Ok(())
}

/// Whether changing the timespans of the target's policy `there`, and its back window if `with_window`, makes it equal
/// to `policy`. A change of timespans in Gnocchi may bring the granularities in another order, too.
fn may_become(there: &ArchivePolicy, policy: &ArchivePolicy, with_window: bool) -> bool {
    let back_window = if with_window { policy.back_window } else { there.back_window };
    let definition = policy.definition.clone();
    have_same_granularities(there, policy)
        && *policy == ArchivePolicy { definition, back_window, ..there.clone() }
}

/// Whether Gnocchi's API can change the timespans of one to those of the other.
pub(crate) fn have_same_granularities(one: &ArchivePolicy, other: &ArchivePolicy) -> bool {
    let granularities = |policy: &ArchivePolicy| {
        policy.definition.iter().map(|item| item.granularity).collect::<BTreeSet<_>>()
    };
    granularities(one) == granularities(other)
}

/// Policies whose back window has changed since an earlier round. How Gnocchi treats late points then differs from the
/// heads that an earlier import wrote.
pub(crate) async fn changed_windows(
    target: Target<'_>,
    policies: &[ArchivePolicy],
) -> Result<Vec<String>, ImportError> {
    let mut changed = Vec::new();
    for policy in policies {
        let there = target.indexer.archive_policy(&policy.name).await?;
        if there.is_some_and(|there| there.back_window != policy.back_window) {
            changed.push(policy.name.clone());
        }
    }
    Ok(changed)
}

pub(crate) async fn archive_policies(
    target: Target<'_>,
    policies: &[ArchivePolicy],
    report: &mut Report,
) -> Result<(), ImportError> {
    for policy in policies {
        match target.indexer.archive_policy(&policy.name).await? {
            Some(there) if *there == *policy => {}
            Some(_) => {
                let change = PolicyChange {
                    definition: policy.definition.clone(),
                    back_window: Some(policy.back_window),
                    ..PolicyChange::default()
                };
                target.indexer.update_archive_policy(&policy.name, change).await?;
            }
            None => target.indexer.create_archive_policy(policy.clone()).await?,
        }
        report.archive_policies += 1;
    }
    Ok(())
}

pub(crate) async fn archive_policy_rules(
    target: Target<'_>,
    rules: Vec<ArchivePolicyRule>,
    report: &mut Report,
) -> Result<(), ImportError> {
    let there = target.indexer.archive_policy_rules().await?;
    for gone in there.iter().filter(|rule| !rules.contains(rule)) {
        target.indexer.delete_archive_policy_rule(&gone.name).await?;
    }
    for rule in rules {
        report.archive_policy_rules += 1;
        if !there.contains(&rule) {
            target.indexer.create_archive_policy_rule(rule).await?;
        }
    }
    Ok(())
}

/// Creates types, and updates those that have changed in Gnocchi since an earlier round. `seen`: when Gnocchi had last
/// changed each type, as of the rounds so far.
pub(crate) async fn resource_types(
    target: Target<'_>,
    index: &mut Index,
    types: &[SourceType],
    seen: &mut HashMap<Text, Timestamp>,
    report: &mut Report,
) -> Result<(), ImportError> {
    for source in types {
        let name = &source.resource_type.name;
        match target.indexer.resource_type(name).await? {
            None => target.indexer.create_resource_type(source.resource_type.clone()).await?,
            Some(there) => {
                let is_seen = seen.get(name) == Some(&source.updated_at);
                let replaced =
                    if is_seen { BTreeSet::new() } else { replaced(target, index, source, &there).await? };
                if there.attributes != source.resource_type.attributes || !replaced.is_empty() {
                    change_type(target, index, source, &there, &replaced).await?;
                }
            }
        }
        seen.insert(name.clone(), source.updated_at);
        report.resource_types += 1;
    }
    Ok(())
}

/// Changes the target's type `there` to Gnocchi's; `replaced` attributes begin anew. Gnocchi fills in values of existing
/// resources without a new revision: the target gets such values as the attributes' fills.
async fn change_type(
    target: Target<'_>,
    index: &mut Index,
    source: &SourceType,
    there: &ResourceType,
    replaced: &BTreeSet<Text>,
) -> Result<(), ImportError> {
    let name = &source.resource_type.name;
    let is_kept =
        |attribute: &Text, old: &Attribute| !replaced.contains(attribute) && has_kind(source, attribute, old);
    let gone = there.attributes.iter().filter(|(attribute, old)| !is_kept(attribute, old));
    let delete: Vec<Text> = gone.map(|(attribute, _)| attribute.clone()).collect();
    if !delete.is_empty() {
        let change = ResourceTypeChange { delete, ..ResourceTypeChange::default() };
        target.indexer.update_resource_type(name, change).await?;
    }
    let is_new =
        |attribute: &Text| there.attributes.get(attribute).is_none_or(|old| !is_kept(attribute, old));
    let changed: Vec<(Text, Attribute)> = source
        .resource_type
        .attributes
        .iter()
        .filter(|(attribute, new)| is_new(attribute) || there.attributes.get(*attribute) != Some(*new))
        .map(|(attribute, new)| (attribute.clone(), new.clone()))
        .collect();
    let mut fills = fills(target, index, source, &changed, &is_new).await?;
    let filled = changed.into_iter().map(|(attribute, new)| {
        let fill = fills.remove(&attribute);
        (attribute, Attribute { fill, ..new })
    });
    let (add, update) = filled.partition(|(attribute, _)| is_new(attribute));
    let change = ResourceTypeChange { add, update, delete: Vec::new() };
    target.indexer.update_resource_type(name, change).await?;
    Ok(())
}

/// Whether Gnocchi has the attribute with the kind of `old`.
fn has_kind(source: &SourceType, attribute: &Text, old: &Attribute) -> bool {
    let new = source.resource_type.attributes.get(attribute);
    new.is_some_and(|new| new.kind.name() == old.kind.name())
}

/// The attributes of the target's type `there` that Gnocchi has removed and added again with the same kind. In Gnocchi all
/// revisions then have no value, or all the same one, while the target has other values.
async fn replaced(
    target: Target<'_>,
    index: &mut Index,
    source: &SourceType,
    there: &ResourceType,
) -> Result<BTreeSet<Text>, ImportError> {
    let name = &source.resource_type.name;
    let kept = there.attributes.iter().filter(|(attribute, old)| has_kind(source, attribute, old));
    // The value that fills an attribute in is not stored in the revisions.
    let (filled, stored): (Vec<_>, Vec<_>) = kept.partition(|(_, old)| old.fill.is_some());
    let stored: Vec<Text> = stored.into_iter().map(|(attribute, _)| attribute.clone()).collect();
    let filled = filled.into_iter().map(|(attribute, _)| attribute.clone());
    let given = with_values(target.indexer, name, &stored).await?;
    let mut uniform = Uniform::of(given.into_iter().chain(filled));
    let mut revisions = Revisions::new(target, index, source);
    while !uniform.attributes.is_empty()
        && let Some(both) = revisions.next().await?
    {
        for (ours, theirs) in both {
            uniform.compare(&ours.attributes, &theirs.attributes);
        }
    }
    Ok(uniform.replaced())
}

/// Attributes per filter.
const ATTRIBUTES_AT_ONCE: usize = 500;

/// Those of the attributes that some revision in the target has a value of. Others have no value to be replaced: without
/// them fewer revisions must be read to see that none is.
async fn with_values(
    indexer: &dyn Indexer,
    resource_type: &str,
    attributes: &[Text],
) -> Result<Vec<Text>, IndexerError> {
    let mut found = Vec::new();
    for some in attributes.chunks(ATTRIBUTES_AT_ONCE) {
        let mut open: Vec<&Text> = some.iter().collect();
        while !open.is_empty() {
            let has_value = |name: &&Text| Filter::compare(name, Comparison::NotEqual, FilterValue::Null);
            let filter = Filter::Or(open.iter().map(has_value).collect());
            let page = match resource_page(indexer, resource_type, Some(filter), None, true, 1).await {
                // Filters have another meaning for the name of an attribute, such as `lifespan`.
                Err(IndexerError::InvalidFilterValue { .. } | IndexerError::NoSuchAttribute { .. }) => {
                    found.extend(open.into_iter().cloned());
                    break;
                }
                page => page?,
            };
            let Some(revision) = page.first() else { break };
            let is_open = |name: &&Text| !is_given(revision.attributes.get(*name));
            let (left, given): (Vec<&Text>, Vec<&Text>) = open.iter().copied().partition(is_open);
            // Otherwise the filter sees a value that the revision does not show: all of them may have one.
            let (left, given) = if given.is_empty() { (Vec::new(), open) } else { (left, given) };
            found.extend(given.into_iter().cloned());
            open = left;
        }
    }
    Ok(found)
}

/// Attributes that have the same value in all of Gnocchi's revisions seen so far.
struct Uniform {
    attributes: BTreeMap<Text, Option<UniformValue>>,
}

struct UniformValue {
    value: AttributeValue,
    /// Whether the target has another one in some revision.
    differs: bool,
}

impl Uniform {
    fn of(attributes: impl Iterator<Item = Text>) -> Self {
        Self { attributes: attributes.map(|attribute| (attribute, None)).collect() }
    }

    /// Compares a revision's attributes in the target and in Gnocchi.
    fn compare(&mut self, ours: &BTreeMap<Text, AttributeValue>, theirs: &BTreeMap<Text, AttributeValue>) {
        self.attributes.retain(|attribute, seen| {
            let (ours, theirs) = (ours.get(attribute), theirs.get(attribute));
            let theirs = theirs.unwrap_or(&AttributeValue::Null);
            let seen = seen.get_or_insert_with(|| UniformValue { value: theirs.clone(), differs: false });
            seen.differs |= is_given(ours) && ours != Some(theirs);
            seen.value == *theirs
        });
    }

    fn replaced(self) -> BTreeSet<Text> {
        let differs =
            self.attributes.into_iter().filter(|(_, seen)| seen.as_ref().is_some_and(|seen| seen.differs));
        differs.map(|(attribute, _)| attribute).collect()
    }
}

/// The values that Gnocchi has filled in for resources without a value, by attribute. Gnocchi fills in one value for
/// all resources and their history, so one revision that the target has without a value shows it.
async fn fills(
    target: Target<'_>,
    index: &mut Index,
    source: &SourceType,
    changed: &[(Text, Attribute)],
    is_new: &(dyn Fn(&Text) -> bool + Sync),
) -> Result<BTreeMap<Text, AttributeValue>, ImportError> {
    let mut open: Vec<&Text> = changed.iter().map(|(attribute, _)| attribute).collect();
    let mut fills = BTreeMap::new();
    let mut revisions = Revisions::new(target, index, source);
    while !open.is_empty()
        && let Some(both) = revisions.next().await?
    {
        for (ours, theirs) in both {
            open.retain(|attribute| {
                let (old, new) = (ours.attributes.get(*attribute), theirs.attributes.get(*attribute));
                let fill = new.filter(|new| is_given(Some(new)) && (is_new(attribute) || !is_given(old)));
                if let Some(fill) = fill {
                    fills.insert((*attribute).clone(), fill.clone());
                }
                // A new attribute that one revision lacks was not filled in.
                fill.is_none() && !is_new(attribute)
            });
        }
    }
    Ok(fills)
}

/// Walks through the revisions of a type that both sides have.
struct Revisions<'a> {
    target: Target<'a>,
    index: &'a mut Index,
    source: &'a SourceType,
    marker: Option<ResourceMarker>,
    theirs: Histories,
}

impl<'a> Revisions<'a> {
    fn new(target: Target<'a>, index: &'a mut Index, source: &'a SourceType) -> Self {
        Revisions { target, index, source, marker: None, theirs: Histories::default() }
    }

    /// Some of them, each as the target and as Gnocchi has it; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<(Arc<Resource>, SourceRevision)>>, ImportError> {
        let name = &self.source.resource_type.name;
        let marker = self.marker.clone();
        let ours = resource_page(self.target.indexer, name, None, marker, true, IDS_AT_ONCE).await?;
        let Some(last) = ours.last() else { return Ok(None) };
        self.marker = Some(ResourceMarker::Listed(last.clone()));
        let mut ids: Vec<Uuid> = ours.iter().map(|revision| revision.id).collect();
        ids.dedup();
        let on_page: HashSet<(Uuid, Timestamp)> =
            ours.iter().map(|revision| (revision.id, revision.revision_start)).collect();
        let unread = self.theirs.turn_to(&ids);
        for some in self.index.groups_of_resources(unread).await? {
            self.theirs.insert(self.index.resources(self.source, some).await?, &on_page);
        }
        let both = ours.into_iter().filter_map(|ours| {
            let theirs = self.theirs.revisions.remove(&(ours.id, ours.revision_start))?;
            Some((ours, theirs))
        });
        Ok(Some(both.collect()))
    }
}

/// Gnocchi's revisions of the resources on a page of the target's. A long history covers several pages: it is read once.
#[derive(Default)]
struct Histories {
    revisions: HashMap<(Uuid, Timestamp), SourceRevision>,
    /// The last resource on the page.
    last: Option<Uuid>,
}

impl Histories {
    /// Forgets all resources that are not on the next page; returns those on it whose histories were not read. `ids`:
    /// those of the page, in order.
    fn turn_to<'a>(&mut self, ids: &'a [Uuid]) -> &'a [Uuid] {
        let continued = self.last.filter(|last| ids.first() == Some(last));
        self.revisions.retain(|(id, _), _| Some(*id) == continued);
        self.last = ids.last().copied();
        &ids[usize::from(continued.is_some())..]
    }

    /// Keeps the revisions that are on the page, and all of its last resource. Gnocchi may have got many more since the
    /// target's were imported.
    fn insert(&mut self, resources: Vec<SourceResource>, on_page: &HashSet<(Uuid, Timestamp)>) {
        let last = self.last;
        for SourceResource { id, revisions } in resources {
            let by_start = revisions.into_iter().map(|revision| ((id, revision.revision_start), revision));
            self.revisions.extend(by_start.filter(|(key, _)| Some(id) == last || on_page.contains(key)));
        }
    }
}

/// Whether there is a value other than null.
fn is_given(value: Option<&AttributeValue>) -> bool {
    value.is_some_and(|value| *value != AttributeValue::Null)
}

/// Deletes policies and types that are gone in Gnocchi, after everything that used them.
pub(crate) async fn delete_unused(
    target: Target<'_>,
    policies: &[ArchivePolicy],
    types: &[SourceType],
) -> Result<(), ImportError> {
    for there in target.indexer.archive_policies().await? {
        if policies.iter().all(|policy| policy.name != there.name) {
            target.indexer.delete_archive_policy(&there.name).await?;
        }
    }
    for there in target.indexer.resource_types().await? {
        if there.name != GENERIC && types.iter().all(|source| source.resource_type.name != there.name) {
            target.indexer.delete_resource_type(&there.name).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gnudi_drivers::aggregates::memory::MemoryAggregates;
    use gnudi_indexer::{MemoryIndexer, NewResource};
    use gnudi_model::{ArchivePolicyItem, AttributeKind, Timespan};

    use super::*;

    /// The policy `p` with these granularities, in seconds, and their points.
    fn policy(back_window: u64, items: &[(i64, u64)]) -> ArchivePolicy {
        let item = |(seconds, points): &(i64, u64)| {
            ArchivePolicyItem::new(Some(Timespan::from_secs(*seconds)), Some(*points), None).unwrap()
        };
        let methods = ArchivePolicy::default_methods();
        let definition = items.iter().map(item).collect();
        ArchivePolicy::new("p".to_owned(), back_window, definition, methods).unwrap()
    }

    #[tokio::test]
    async fn a_policy_that_was_created_again_is_another_one() {
        let indexer: &dyn Indexer = &MemoryIndexer::default();
        let aggregates = &MemoryAggregates::default();
        let target = Target { indexer, aggregates, now: Timestamp::EPOCH };
        let rule = ArchivePolicyRule {
            name: "r".to_owned(),
            metric_pattern: "*".to_owned(),
            archive_policy_name: "p".to_owned(),
        };
        indexer.create_archive_policy(policy(0, &[(1, 10)])).await.unwrap();
        indexer.create_archive_policy_rule(rule.clone()).await.unwrap();
        // Gnocchi's API can change that.
        delete_replaced(target, &[policy(2, &[(1, 20)])]).await.unwrap();
        assert_eq!(*indexer.archive_policy("p").await.unwrap().unwrap(), policy(0, &[(1, 10)]));
        let other = [policy(0, &[(60, 10)])];
        assert!(refuse_others(target, &other, &[], false).await.is_err());
        refuse_others(target, &other, &[], true).await.unwrap();
        delete_replaced(target, &other).await.unwrap();
        let mut report = Report::default();
        archive_policies(target, &other, &mut report).await.unwrap();
        archive_policy_rules(target, vec![rule.clone()], &mut report).await.unwrap();
        assert_eq!(*indexer.archive_policy("p").await.unwrap().unwrap(), other[0]);
        assert_eq!(indexer.archive_policy_rules().await.unwrap(), [rule]);
    }

    #[test]
    fn a_policy_may_get_other_timespans_in_another_order() {
        let there = policy(0, &[(1, 10), (60, 20)]);
        assert!(may_become(&there, &policy(0, &[(60, 30), (1, 40)]), false));
        assert!(may_become(&there, &policy(2, &[(60, 20), (1, 10)]), true));
        assert!(!may_become(&there, &policy(2, &[(60, 20), (1, 10)]), false));
        for other in [&[(60, 20)][..], &[(1, 10), (300, 20)][..], &[(1, 10), (60, 20), (300, 5)][..]] {
            assert!(!may_become(&there, &policy(0, other), true), "{other:?}");
        }
    }

    #[tokio::test]
    async fn attributes_without_a_value_need_no_comparison() {
        let indexer: &dyn Indexer = &MemoryIndexer::default();
        let names = ["later", "never", "set"].map(Text::from);
        let attribute = Attribute { kind: AttributeKind::Bool, required: false, fill: None };
        let attributes = names.iter().map(|name| (name.clone(), attribute.clone())).collect();
        let machine = ResourceType { name: "machine".into(), attributes };
        indexer.create_resource_type(machine).await.unwrap();
        let given = [[None, None, Some(true)], [Some(false), None, Some(true)], [None, None, None]];
        let resources = (1..).zip(given).map(|(id, values)| {
            let value = |value: Option<bool>| value.map_or(AttributeValue::Null, AttributeValue::Bool);
            let attributes = names.iter().cloned().zip(values.map(value)).collect();
            let id = Uuid::from_u128(id);
            NewResource { attributes, ..NewResource::new(id, "machine", "creator", Timestamp::EPOCH) }
        });
        for created in indexer.create_resources(resources.collect()).await {
            created.unwrap();
        }
        assert_eq!(with_values(indexer, "machine", &names).await.unwrap(), ["set", "later"].map(Text::from));
        assert_eq!(with_values(indexer, "machine", &names[1..2]).await.unwrap(), Vec::<Text>::new());
    }

    #[test]
    fn a_history_of_several_pages_is_read_once() {
        let [one, long, other] = [1, 2, 3].map(Uuid::from_u128);
        let revision =
            |start| SourceRevision { revision_start: Timestamp(start), ..SourceRevision::default() };
        let mut histories = Histories::default();
        assert_eq!(histories.turn_to(&[one, long]), [one, long]);
        let history = |id| SourceResource { id, revisions: vec![revision(1), revision(2)] };
        histories.insert(vec![history(one), history(long)], &HashSet::from([(one, Timestamp(2))]));
        assert_eq!(histories.revisions.len(), 3, "one has another that is not on the page");
        assert!(histories.turn_to(&[long]).is_empty());
        assert!(histories.revisions.keys().all(|(id, _)| *id == long) && histories.revisions.len() == 2);
        assert_eq!(histories.turn_to(&[long, other]), [other]);
        assert_eq!(histories.turn_to(&[one]), [one]);
        assert!(histories.revisions.is_empty());
    }

    #[test]
    fn an_attribute_that_came_back_has_one_value_or_none() {
        let attributes = |values: [Option<f64>; 5]| -> BTreeMap<Text, AttributeValue> {
            let value = |value: Option<f64>| value.map_or(AttributeValue::Null, AttributeValue::Number);
            ["back", "filled", "kept", "required", "never"]
                .map(Text::from)
                .into_iter()
                .zip(values.map(value))
                .collect()
        };
        let first = attributes([Some(1.0), Some(1.0), Some(1.0), Some(1.0), None]);
        let mut uniform = Uniform::of(first.keys().cloned());
        uniform.compare(&first, &attributes([None, Some(7.0), Some(1.0), Some(1.0), None]));
        let second = attributes([None, Some(2.0), Some(1.0), None, None]);
        // Only the attribute that has become required got a fill value from Gnocchi.
        uniform.compare(&second, &attributes([None, Some(7.0), Some(1.0), Some(5.0), None]));
        assert!(!uniform.attributes.contains_key("required"));
        // Attributes that the target lacks prove nothing.
        uniform.compare(
            &BTreeMap::new(),
            &BTreeMap::from([
                ("filled".into(), AttributeValue::Number(7.0)),
                ("kept".into(), AttributeValue::Number(1.0)),
            ]),
        );
        assert_eq!(uniform.replaced(), BTreeSet::from(["back", "filled"].map(Text::from)));
    }
}
