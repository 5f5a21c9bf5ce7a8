//! Protected paths in the workspace: files that git outside obeys, and a store inside the workspace.

use std::{fs, path::Path};

use rejoin_engine::sandbox::{Gap, Policy, Sandbox};

use super::{Ran, SECRET, Scene, Test, Walls, needs, test, usable};

/// Commands that want git to run something later, outside.
const TRICKS: &[(&str, &str)] = &[
    ("write_a_hook", "echo evil > .git/hooks/pre-commit"),
    ("write_a_hook_through_a_link", "ln -s .git/hooks h; echo evil > h/pre-commit"),
    ("write_the_settings", "echo '[core] evil' >> .git/config"),
    ("set_a_setting", "git config core.hooksPath evil"),
    (
        "replace_the_settings",
        "echo evil > c; mv -f c .git/config; cp -f c .git/config; ln -sf ../c .git/config",
    ),
    ("remove_the_settings", "rm -f .git/config; echo evil > .git/config"),
    (
        "replace_the_hooks",
        "mkdir evil; echo evil > evil/pre-commit; rm -rf .git/hooks; mv -T evil .git/hooks",
    ),
    ("move_the_hooks_away", "mv .git/hooks away; mkdir .git/hooks; echo evil > .git/hooks/pre-commit"),
    (
        "move_the_repository_away",
        "mv .git away; cp -r away .git; echo evil > .git/hooks/pre-commit; echo evil >> .git/config",
    ),
    (
        "swap_the_repository",
        "cp -r .git copy; echo evil > copy/hooks/pre-commit; perl -e 'my ($a, $b) = (\"copy\", \".git\"); syscall(316, -100, $a, -100, $b, 2)'",
    ),
    (
        "point_the_repository_elsewhere",
        "mkdir -p evil; cp .git/config .git/HEAD evil; cp -r .git/objects .git/refs evil; echo '[core] evil' >> evil/config; echo ../evil > .git/commondir",
    ),
    ("write_the_settings_of_a_worktree", "echo '[core] evil' > .git/config.worktree"),
    ("write_the_settings_of_a_submodule", "echo '[core] evil' >> .git/modules/deep/sub/config"),
    ("write_a_hook_of_a_submodule", "echo evil > .git/modules/deep/sub/hooks/pre-commit"),
    ("move_a_submodule_away", "cd .git/modules; mv deep x; cp -r x deep; echo evil > deep/sub/config"),
];

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (name, command) in TRICKS {
        tests.push(test(format!("git::{name}::works_outside"), move || {
            let scene = repository()?;
            scene.run_free(command);
            assert!(is_poisoned(&scene), "the trick does not even work without a sandbox");
            Ok(())
        }));
        for walls in [Walls::All, Walls::NamespacesOnly] {
            tests.push(test(format!("git::{name}::{}", walls.name()), move || {
                let scene = repository()?;
                let sandbox = scene.sandbox(walls)?;
                let ran = scene.run(&sandbox, command);
                assert!(!is_poisoned(&scene), "{ran:?}");
                Ok(())
            }));
        }
    }
    tests.push(test("git::missing_hooks_and_settings_are_protected_too", || {
        let scene = repository()?;
        fs::remove_dir_all(scene.workspace().join(".git/hooks")).unwrap();
        let sandbox = scene.sandbox(Walls::All)?;
        let ran = scene.run(&sandbox, "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit");
        assert!(!is_poisoned(&scene), "{ran:?}");
        Ok(())
    }));
    tests.push(test("git::a_worktree_keeps_its_repository", || {
        let scene = Scene::new();
        let file = scene.workspace().join(".git");
        fs::write(&file, "gitdir: elsewhere\n").unwrap();
        let sandbox = scene.sandbox(Walls::All)?;
        let ran =
            scene.run(&sandbox, "echo gitdir: evil > .git; rm -f .git; mv .git x; echo evil > n; mv n .git");
        assert_eq!(fs::read_to_string(file).unwrap(), "gitdir: elsewhere\n", "{ran:?}");
        Ok(())
    }));
    tests.push(test("git::a_linked_repository_is_reported", || {
        let scene = Scene::new();
        std::os::unix::fs::symlink("elsewhere", scene.workspace().join(".git")).unwrap();
        let sandbox = usable(Sandbox::new(scene.policy(Walls::All)).unwrap(), Walls::All)?;
        let link = sandbox.policy().workspace.join(".git");
        assert_eq!(sandbox.confinement().gaps(), [Gap::Writable(link)]);
        Ok(())
    }));
    tests.push(test("git::without_namespaces_the_gap_is_reported", || {
        let scene = repository()?;
        let sandbox = scene.sandbox(Walls::LandlockOnly)?;
        let hooks = sandbox.policy().workspace.join(".git/hooks");
        assert!(sandbox.confinement().gaps().contains(&Gap::Writable(hooks)));
        Ok(())
    }));
    for (name, command) in [
        ("read", "cat store/rejoin.db"),
        ("read_through_a_link", "ln -s store l; cat l/rejoin.db"),
        ("read_through_a_hard_link", "ln store/rejoin.db h; cat h"),
        ("move", "mv store away; cat away/rejoin.db"),
        ("move_its_folder", "mv deep moved; cat moved/er/key"),
        ("read_a_file", "cat deep/er/key"),
        ("remove", "rm -rf store deep; true"),
    ] {
        for walls in [Walls::All, Walls::NamespacesOnly] {
            tests.push(test(format!("hidden::{name}::{}", walls.name()), move || hidden(walls, command)));
        }
    }
    tests.push(test("hidden::without_namespaces_the_gap_is_reported", || {
        let (_scene, policy) = with_store(Walls::LandlockOnly);
        let sandbox = usable(Sandbox::new(policy).unwrap(), Walls::LandlockOnly)?;
        let store = sandbox.policy().workspace.join("store");
        assert!(sandbox.confinement().gaps().contains(&Gap::Visible(store)));
        Ok(())
    }));
    tests
}

fn repository() -> Result<Scene, String> {
    needs(&["git"])?;
    let scene = Scene::new();
    let ran = scene.run_free("git init -q . && mkdir -p .git/hooks && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a && git init -q sub && mkdir -p .git/modules/deep sub/.git/hooks && mv sub/.git .git/modules/deep/sub");
    assert_eq!(ran.output, "");
    Ok(scene)
}

/// Whether git would obey something that the command wrote.
fn is_poisoned(scene: &Scene) -> bool {
    let git = scene.workspace().join(".git");
    let submodule = git.join("modules/deep/sub");
    let evil = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("evil"));
    let obeyed = ["config", "hooks/pre-commit", "commondir", "config.worktree"];
    [&git, &submodule].iter().any(|git| obeyed.iter().any(|name| evil(&git.join(name))))
        || !git.join("config").exists()
}

fn with_store(walls: Walls) -> (Scene, Policy) {
    let scene = Scene::new();
    let workspace = scene.workspace();
    for folder in ["store", "deep/er"] {
        fs::create_dir_all(workspace.join(folder)).unwrap();
    }
    fs::write(workspace.join("store/rejoin.db"), SECRET).unwrap();
    fs::write(workspace.join("deep/er/key"), SECRET).unwrap();
    let mut policy = scene.policy(walls);
    policy.hidden = vec!["store".into(), workspace.join("deep/er/key")];
    (scene, policy)
}

fn hidden(walls: Walls, command: &str) -> Result<(), String> {
    let (scene, policy) = with_store(walls);
    let sandbox = usable(Sandbox::new(policy).unwrap(), walls)?;
    let Ran { output, .. } = scene.run(&sandbox, command);
    assert!(!output.contains(SECRET), "{output}");
    for path in ["store/rejoin.db", "deep/er/key"] {
        assert_eq!(fs::read_to_string(scene.workspace().join(path)).unwrap(), SECRET, "{output}");
    }
    // The rest of the workspace is as writable as ever.
    assert_eq!(scene.run(&sandbox, "echo x > new && echo x > deep/new && cat new deep/new").output, "x\nx\n");
    Ok(())
}
