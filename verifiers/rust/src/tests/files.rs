use crate::base::Hash;
use crate::files::{is_consistent, is_included};
use crate::line::{merkle_leaf, merkle_node};

fn root(leaves: &[Hash]) -> Hash {
    match leaves {
        [leaf] => merkle_leaf(leaf),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            merkle_node(&root(left), &root(right))
        }
    }
}

fn inclusion(leaves: &[Hash], at: usize) -> Vec<Hash> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
    let (mut path, other) =
        if at < left.len() { (inclusion(left, at), right) } else { (inclusion(right, at - left.len()), left) };
    path.push(root(other));
    path
}

fn consistency(leaves: &[Hash], first: usize, whole: bool) -> Vec<Hash> {
    if first == leaves.len() {
        return if whole { Vec::new() } else { vec![root(leaves)] };
    }
    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
    let (mut path, other) = if first <= left.len() {
        (consistency(left, first, whole), right)
    } else {
        (consistency(right, first - left.len(), false), left)
    };
    path.push(root(other));
    path
}

/// The paths are made as RFC 9162 sections 2.1.3.1 and 2.1.4.1 say; a changed one must not do.
#[test]
fn proofs_of_all_small_trees() {
    let leaves: Vec<Hash> = (1..=20).map(|byte| [byte; 32]).collect();
    for size in 1..=leaves.len() {
        let tree = root(&leaves[..size]);
        for at in 1..=size {
            let path = inclusion(&leaves[..size], at - 1);
            let holds = |seq, path: &[Hash]| is_included(seq, &leaves[at - 1], size as u64, &tree, path);
            assert!(holds(at as u64, &path));
            assert!(!holds(at as u64 % size as u64 + 1, &path) || size == 1);
            assert!(!holds(at as u64, &[&path[..], &[tree]].concat()));
            assert!(path.is_empty() || !holds(at as u64, &path[1..]));
            assert!(!holds(size as u64 + 1, &path));

            let path = consistency(&leaves[..size], at, true);
            let older = root(&leaves[..at]);
            let holds = |path: &[Hash]| is_consistent(at as u64, &older, size as u64, &tree, path);
            assert!(holds(&path));
            assert!(!holds(&[&path[..], &[tree]].concat()));
            assert!(path.is_empty() || !holds(&path[1..]));
        }
    }
}
