//! Copies Gnocchi's archive policies, rules and resource types to the target: creates, changes and deletes them there.

use std::collections::{BTreeMap, HashMap};

use gnudi_indexer::{PolicyChange, ResourceMarker, ResourceTypeChange};
use gnudi_model::{
    ArchivePolicy, ArchivePolicyRule, Attribute, AttributeValue, ResourceType, Text, Timestamp,
    resource_type::GENERIC,
};
use uuid::Uuid;

use crate::{
    ImportError, Report, Target,
    index::{IDS_AT_ONCE, Index, SourceRevision, SourceType},
    target::resource_page,
};

/// Refuses a target with a different policy or type of the same name, before anything is written. Policies may always
/// differ in their timespans. `is_continued`: the target's are from an earlier import, so back windows and types may
/// differ, too.
pub(crate) async fn refuse_others(
    target: Target<'_>,
    policies: &[ArchivePolicy],
    types: &[SourceType],
    is_continued: bool,
) -> Result<(), ImportError> {
    for policy in policies {
        let there = target.indexer.archive_policy(&policy.name).await?;
        if there.is_some_and(|there| !may_become(&there, policy, is_continued)) {
            return Err(ImportError::OtherArchivePolicy(policy.name.clone()));
        }
    }
    if is_continued {
        return Ok(());
    }
    for SourceType { resource_type, .. } in types {
        let there = target.indexer.resource_type(&resource_type.name).await?;
        if there.is_some_and(|there| there.attributes != resource_type.attributes) {
            return Err(ImportError::OtherResourceType(resource_type.name.to_string()));
        }
    }
    Ok(())
}

/// Whether changing the timespans of the target's policy `there`, and its back window if `with_window`, makes it equal
/// to `policy`.
fn may_become(there: &ArchivePolicy, policy: &ArchivePolicy, with_window: bool) -> bool {
    let granularities =
        |policy: &ArchivePolicy| policy.definition.iter().map(|item| item.granularity).collect::<Vec<_>>();
    let back_window = if with_window { policy.back_window } else { there.back_window };
    let definition = policy.definition.clone();
    granularities(there) == granularities(policy)
        && *policy == ArchivePolicy { definition, back_window, ..there.clone() }
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

/// Creates types, and updates those that have changed in Gnocchi since an earlier round.
pub(crate) async fn resource_types(
    target: Target<'_>,
    index: &mut Index,
    types: &[SourceType],
    report: &mut Report,
) -> Result<(), ImportError> {
    for source in types {
        match target.indexer.resource_type(&source.resource_type.name).await? {
            None => target.indexer.create_resource_type(source.resource_type.clone()).await?,
            Some(there) if there.attributes == source.resource_type.attributes => {}
            Some(there) => change_type(target, index, source, &there).await?,
        }
        report.resource_types += 1;
    }
    Ok(())
}

/// Changes the target's type `there` to Gnocchi's. Gnocchi fills in values of existing resources without a new
/// revision: the target gets such values as the attributes' fills.
async fn change_type(
    target: Target<'_>,
    index: &mut Index,
    source: &SourceType,
    there: &ResourceType,
) -> Result<(), ImportError> {
    let name = &source.resource_type.name;
    let is_kept = |attribute: &Text, old: &Attribute| {
        let new = source.resource_type.attributes.get(attribute);
        new.is_some_and(|new| new.kind.name() == old.kind.name())
    };
    let gone = there.attributes.iter().filter(|(attribute, old)| !is_kept(attribute, old));
    let delete: Vec<Text> = gone.map(|(attribute, _)| attribute.clone()).collect();
    if !delete.is_empty() {
        let change = ResourceTypeChange { delete, ..ResourceTypeChange::default() };
        target.indexer.update_resource_type(name, change).await?;
    }
    let changed: Vec<(Text, Attribute)> = source
        .resource_type
        .attributes
        .iter()
        .filter(|(attribute, new)| there.attributes.get(*attribute) != Some(*new))
        .map(|(attribute, new)| (attribute.clone(), new.clone()))
        .collect();
    let is_new =
        |attribute: &Text| there.attributes.get(attribute).is_none_or(|old| !is_kept(attribute, old));
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

/// The values that Gnocchi has filled in for resources without a value, by attribute. Gnocchi fills in one value for
/// all resources and their history, so one revision that the target has without a value shows it.
async fn fills(
    target: Target<'_>,
    index: &mut Index,
    source: &SourceType,
    changed: &[(Text, Attribute)],
    is_new: &(dyn Fn(&Text) -> bool + Sync),
) -> Result<BTreeMap<Text, AttributeValue>, ImportError> {
    let name = &source.resource_type.name;
    let mut open: Vec<&Text> = changed.iter().map(|(attribute, _)| attribute).collect();
    let (mut fills, mut marker) = (BTreeMap::new(), None);
    loop {
        let ours = resource_page(target.indexer, name, marker, true, IDS_AT_ONCE).await?;
        let Some(last) = ours.last().filter(|_| !open.is_empty()) else { return Ok(fills) };
        marker = Some(ResourceMarker { id: last.id, revision: last.revision });
        let mut ids: Vec<Uuid> = ours.iter().map(|revision| revision.id).collect();
        ids.dedup();
        let theirs = index.resources(source, &ids).await?;
        let theirs: HashMap<(Uuid, Timestamp), &SourceRevision> = theirs
            .iter()
            .flat_map(|resource| {
                resource.revisions.iter().map(|revision| ((resource.id, revision.revision_start), revision))
            })
            .collect();
        for ours in ours {
            let Some(theirs) = theirs.get(&(ours.id, ours.revision_start)) else { continue };
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
