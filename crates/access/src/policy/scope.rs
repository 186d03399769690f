//! What of a list a caller sees: everything, or what belongs to the caller's project.
//!
//! As Gnocchi does: who passes the rule for nothing in particular sees all; who passes it for a thing that the project owns, or
//! has created, sees those. Callers by name see all, unless an operator's file has the rule.

use gnudi_indexer::{Comparison, Creators, Filter, FilterValue, MetricScope};

use super::{Caller, Policy, Rule, Target};

/// Whose things are shown: those for which one of these holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Who has created the thing.
    creators: Option<Creators>,
    /// The project that the thing, or a metric's resource, belongs to.
    owner: Option<String>,
    /// Who has created a metric's resource.
    resource_creators: Option<Creators>,
}

/// The caller sees nothing of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forbidden;

impl Policy {
    /// What a caller sees of the resources of a type.
    ///
    /// # Errors
    /// Where it is nothing.
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
        let sees = |name, value| self.allows(rule, caller, Target::Given(&[of_type, (name, Some(value))]));
        let scope = match (caller.has_token(), caller.project_id.as_deref()) {
            (false, _) => Scope {
                creators: sees("creator", &caller.user).then(|| Creators::Is(caller.user.clone())),
                ..Scope::default()
            },
            (true, Some(project)) => Scope {
                creators: sees("created_by_project_id", project).then(|| Creators::Of(project.to_owned())),
                owner: sees("project_id", project).then(|| project.to_owned()),
                ..Scope::default()
            },
            (true, None) => Scope::default(),
        };
        scope.checked()
    }

    /// What a caller sees of the metrics.
    ///
    /// # Errors
    /// Where it is nothing.
    pub fn metrics_seen(&self, rule: Rule, caller: &Caller) -> Result<Option<MetricScope>, Forbidden> {
        if self.sees_all(rule, caller, &[]) { Ok(None) } else { self.metrics_allowed(rule, caller) }
    }

    /// For which of the metrics a caller passes the rule, whoever it is: also callers by name, who see all in lists.
    ///
    /// # Errors
    /// Where it is none.
    pub fn metrics_allowed(&self, rule: Rule, caller: &Caller) -> Result<Option<MetricScope>, Forbidden> {
        if self.allows(rule, caller, Target::Given(&[])) {
            return Ok(None);
        }
        let sees = |name, value| self.allows(rule, caller, Target::Given(&[(name, Some(value))]));
        let scope = match (caller.has_token(), caller.project_id.as_deref()) {
            (false, _) => Scope {
                creators: sees("creator", &caller.user).then(|| Creators::Is(caller.user.clone())),
                ..Scope::default()
            },
            (true, Some(project)) => {
                let created_by = |name| sees(name, project).then(|| Creators::Of(project.to_owned()));
                Scope {
                    creators: created_by("created_by_project_id"),
                    owner: sees("resource.project_id", project).then(|| project.to_owned()),
                    resource_creators: created_by("resource.created_by_project_id"),
                }
            }
            (true, None) => Scope::default(),
        };
        let Scope { creators, owner, resource_creators } = scope.checked()?.unwrap_or_default();
        Ok(Some(MetricScope { creators, resource_project_id: owner, resource_creators }))
    }

    fn sees_all(&self, rule: Rule, caller: &Caller, target: &[(&str, Option<&str>)]) -> bool {
        (!caller.has_token() && !self.is_overridden(rule)) || self.allows(rule, caller, Target::Given(target))
    }
}

impl Scope {
    fn checked(self) -> Result<Option<Self>, Forbidden> {
        if self == Scope::default() { Err(Forbidden) } else { Ok(Some(self)) }
    }

    /// The filter that takes what is shown, and of that what another one takes.
    pub fn narrow(self, filter: Option<Filter>) -> Filter {
        let mut any = Vec::new();
        if let Some(project) = self.owner {
            any.push(Filter::Compare {
                comparison: Comparison::Equal,
                field: "project_id".to_owned(),
                value: FilterValue::Text(project),
            });
        }
        match self.creators {
            Some(Creators::Is(user)) => any.push(Filter::Compare {
                comparison: Comparison::Equal,
                field: "creator".to_owned(),
                value: FilterValue::Text(user),
            }),
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
