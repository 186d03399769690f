//! Scopes of metrics in SQL: by their creators, and by their resources' owners.

use super::{
    Dialect, Statement,
    filter::{Query, push_creators},
    pattern::push_matches,
};
use crate::{Creators, MetricScope, filter::Pattern};

/// Appends an expression that is true for the metrics of a scope.
pub(super) fn push_scope(query: &mut Query, scope: &MetricScope) {
    let MetricScope { creators, resource_project_id, resource_creators } = scope;
    let mut by = "";
    query.push("(");
    if let Some(creators) = creators {
        push_creator(query, "creator", creators);
        by = " OR ";
    }
    if resource_project_id.is_some() || resource_creators.is_some() {
        query.push(by).push("resource_id IN (SELECT s.id FROM resource s WHERE ");
        let mut or = "";
        if let Some(project) = resource_project_id {
            query.push("s.project_id = ").push_bind(project);
            or = " OR ";
        }
        if let Some(creators) = resource_creators {
            query.push(or);
            push_creator(query, "s.creator", creators);
        }
        by = ")";
        query.push(")");
    }
    query.push(if by.is_empty() { "FALSE)" } else { ")" });
}

fn push_creator(query: &mut Query, column: &str, creators: &Creators) {
    match creators {
        Creators::Is(creator) => drop(query.push(format_args!("{column} = ")).push_bind(creator)),
        Creators::Of(project) => push_matches(query, column, true, &pattern(project)),
    }
}

fn pattern(project: &str) -> Pattern {
    Pattern::parse(&Creators::pattern(project)).expect("what is special is escaped")
}

/// Counts the active metrics of these creators, by skipping from creator to creator. `None`: of all.
pub(super) fn count_statement(dialect: Dialect, creators: Option<&Creators>) -> Statement {
    let mut query = Statement::new(dialect, "SELECT COUNT(*) FROM metric WHERE status = 0");
    match creators {
        None => {}
        Some(creators @ Creators::Is(_)) => {
            query.push(" AND ");
            push_creator(&mut query, "creator", creators);
        }
        Some(Creators::Of(project)) => {
            query.push(" AND creator IN (");
            push_creators(&mut query, "metric", &pattern(project));
            query.push(")");
        }
    }
    query
}
