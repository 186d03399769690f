//! tooz' hash ring (`tooz/hashring.py`): each member has 32 places per weight on a ring of MD5 sums, and a
//! key belongs to the member at the next place after its own sum.

use std::collections::BTreeMap;

use md5::{Digest as _, Md5};

use super::GroupMember;

/// Per weight.
const PLACES: u32 = 32;

/// Maximum weight: members set their own weights, and each costs computing time here.
const WEIGHT_MAX: u32 = 1000;

/// The members' places.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    places: BTreeMap<[u8; 16], Vec<u8>>,
}

impl Ring {
    pub fn new(members: &[GroupMember]) -> Self {
        let mut places = BTreeMap::new();
        for member in members {
            let mut hash = Md5::new_with_prefix(&member.id);
            for _ in 0..PLACES * member.weight.min(WEIGHT_MAX) {
                hash.update(&member.id);
                places.insert(hash.clone().finalize().into(), member.id.clone());
            }
        }
        Ring { places }
    }

    /// The key's owner; `None` on an empty ring.
    pub fn owner(&self, key: &str) -> Option<&[u8]> {
        let sum: [u8; 16] = Md5::digest(key).into();
        let behind = (std::ops::Bound::Excluded(sum), std::ops::Bound::Unbounded);
        let place = self.places.range(behind).next().or_else(|| self.places.first_key_value());
        place.map(|(_, member)| member.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, weight: u32) -> GroupMember {
        GroupMember { id: id.as_bytes().to_vec(), weight }
    }

    /// Results of tooz 9.1 for the same members: `HashRing([]).add_node(id, weight)`,
    /// `get_nodes(str(number).encode())`.
    #[test]
    fn shares_are_those_of_tooz() {
        let ring = Ring::new(&[member("a", 1), member("b", 1), member("\u{e9}", 2)]);
        let owner =
            |number: usize| String::from_utf8_lossy(ring.owner(&number.to_string()).unwrap()).into_owned();
        let owners: String = (0..100).map(owner).collect();
        let expected = "aébééééééaabééébbééééaéaééééaéaéééééééaaaabéaééébb\
                        éééaéébééaééaééaaéaéééaaéaaéaaéaéabéébéébabébééééé";
        assert_eq!(owners, expected);
    }

    #[test]
    fn nobody_owns_on_an_empty_ring() {
        assert_eq!(Ring::new(&[]).owner("x"), None);
        let ring = Ring::new(&[member("a", 0), member("b", u32::MAX)]);
        assert_eq!(ring.owner("x"), Some(&b"b"[..]));
    }
}
