use crate::base::Hash;
use crate::line::{Merkle, merkle_leaf, merkle_node};

#[test]
fn merkle_roots() {
    fn root(leaves: &[Hash]) -> Hash {
        if let [leaf] = leaves {
            return merkle_leaf(leaf);
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        merkle_node(&root(left), &root(right))
    }
    let leaves: Vec<Hash> = (1..=70).map(|byte| [byte; 32]).collect();
    let mut tree = Merkle::default();
    assert_eq!(tree.root(), None);
    for size in 1..=leaves.len() {
        tree.push(&leaves[size - 1]);
        assert_eq!(tree.root(), Some(root(&leaves[..size])));
    }
}
