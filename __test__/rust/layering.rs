//! The directions of dependency inside the core, and that only the binding names napi.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each module and what it may use; `base` and `schema` are open to all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("agent", &["agent", "pipeline", "mcp", "archive", "session", "schema", "base"]),
    ("pipeline", &["pipeline", "mcp", "archive", "schema", "base"]),
    ("mcp", &["mcp", "schema", "base"]),
    ("archive", &["archive", "schema", "base"]),
    ("session", &["session", "base"]),
    ("schema", &["schema", "base"]),
    ("base", &["base"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn used_modules(text: &str) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.split("crate::")
        .skip(1)
        .flat_map(|rest| {
            let names = rest.strip_prefix('{').map_or_else(
                || rest.split([':', ';', ' ']).take(1).collect(),
                |list| list.split('}').next().unwrap_or_default().split(',').collect::<Vec<_>>(),
            );
            names
                .into_iter()
                .map(|name| name.trim().split("::").next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|name| ALLOWED.iter().any(|(module, _)| module == name))
        .collect()
}

#[test]
fn no_module_points_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut checked = 0;
    for (module, allowed) in ALLOWED {
        let mut files = Vec::new();
        sources(&root.join(module), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for used in used_modules(&text) {
                checked += 1;
                assert!(allowed.contains(&used.as_str()), "{} uses `{used}`, which stands above it", file.display());
            }
        }
    }
    assert!(checked > 50, "the test reads no imports any more");
}

#[test]
fn every_folder_of_the_core_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            name == "lib.rs" || ALLOWED.iter().any(|(module, _)| *module == name),
            "`{name}` has no place in the layering"
        );
    }
}

#[test]
fn the_core_does_not_know_napi() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(!fs::read_to_string(root.join("Cargo.toml")).unwrap().contains("\nnapi"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    for file in files {
        assert!(!fs::read_to_string(&file).unwrap().contains("napi"), "{} names napi", file.display());
    }
}
