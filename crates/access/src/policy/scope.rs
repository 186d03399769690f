//! Which items of a listing a caller sees: all, or those of its project.
//!
//! As in Gnocchi: a caller whom the rule allows without a target sees all items. One whom it allows on a
//! target owned or created by its project sees those. Callers by name see all items, unless an operator's
//! file overrides the rule.

use gnudi_indexer::{Creators, Filter, FilterValue, MetricScope};

use super::{Caller, Policy, Rule, Target};

/// Restricts a listing to items for which any of these holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The item's creator.
    creators: Option<Creators>,
    /// The project that the item, or a metric's resource, belongs to.
    owner: Option<String>,
    /// The creator of a metric's resource.
    resource_creators: Option<Creators>,
}

/// The caller may see no items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forbidden;

impl Policy {
    /// The resources of a type that a caller may see.
    ///
    /// # Errors
    /// If there can be none.
    pub fn resources_seen(
        &self,
        rule: Rule,
        caller: &Caller,
        resource_type: &str,
    ) -> Result<Option<Scope>, Forbidden> {
        let of_type = ("resource_type", Some(resource_type));
        if self.sees_all(rule, caller, &[of_type]) {
            return Ok(None);
        }
        let sees = |name: &str, value: &str| {
            self.allows(rule, caller, Target::Given(&[of_type, (name, Some(value))]))
        };
        Scope::of(caller, "project_id", None, sees).map(Some)
    }

    /// The metrics that a caller may see.
    ///
    /// # Errors
    /// If there can be none.
    pub fn metrics_seen(&self, rule: Rule, caller: &Caller) -> Result<Option<MetricScope>, Forbidden> {
        if self.sees_all(rule, caller, &[]) { Ok(None) } else { self.metrics_allowed(rule, caller) }
    }

    /// The metrics for which the rule allows the caller. Unlike in listings, callers by name are restricted
    /// too.
    ///
    /// # Errors
    /// If there can be none.
    pub fn metrics_allowed(&self, rule: Rule, caller: &Caller) -> Result<Option<MetricScope>, Forbidden> {
        if self.allows(rule, caller, Target::Given(&[])) {
            return Ok(None);
        }
        let sees = |name: &str, value: &str| self.allows(rule, caller, Target::Given(&[(name, Some(value))]));
        let resource_creator = Some("resource.created_by_project_id");
        let scope = Scope::of(caller, "resource.project_id", resource_creator, sees)?;
        let Scope { creators, owner, resource_creators } = scope;
        Ok(Some(MetricScope { creators, resource_project_id: owner, resource_creators }))
    }

    fn sees_all(&self, rule: Rule, caller: &Caller, target: &[(&str, Option<&str>)]) -> bool {
        (!caller.has_token() && !self.is_overridden(rule)) || self.allows(rule, caller, Target::Given(target))
    }
}

impl Scope {
    /// What a caller sees who does not see all: `sees` says whether it is allowed on a target with this attribute.
    /// `owner` and `resource_creator` are the attributes of the project that an item belongs to, and of the one that
    /// has created its resource.
    fn of(
        caller: &Caller,
        owner: &str,
        resource_creator: Option<&str>,
        sees: impl Fn(&str, &str) -> bool,
    ) -> Result<Self, Forbidden> {
        let scope = match (caller.has_token(), caller.project_id.as_deref()) {
            (false, _) => Scope {
                creators: sees("creator", &caller.user).then(|| Creators::Is(caller.user.clone())),
                ..Scope::default()
            },
            (true, Some(project)) => {
                let created_by = |name: &str| sees(name, project).then(|| Creators::Of(project.to_owned()));
                Scope {
                    creators: created_by("created_by_project_id"),
                    owner: sees(owner, project).then(|| project.to_owned()),
                    resource_creators: resource_creator.and_then(created_by),
                }
            }
            (true, None) => Scope::default(),
        };
        if scope == Scope::default() { Err(Forbidden) } else { Ok(scope) }
    }

    /// Adds this restriction to a filter.
    pub fn narrow(self, filter: Option<Filter>) -> Filter {
        let mut any = Vec::new();
        if let Some(project) = self.owner {
            any.push(Filter::equal("project_id", FilterValue::Text(project)));
        }
        match self.creators {
            Some(Creators::Is(user)) => any.push(Filter::equal("creator", FilterValue::Text(user))),
            Some(Creators::Of(project)) => any.push(Filter::Like {
                field: "creator".to_owned(),
                pattern: FilterValue::Text(Creators::pattern(&project)),
            }),
            None => {}
        }
        let seen = Filter::Or(any);
        match filter {
            Some(filter) => Filter::And(vec![seen, filter]),
            None => seen,
        }
    }
}
