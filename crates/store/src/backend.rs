//! What every kind of store is built from: `use crate::backend::*;`.

pub(crate) use crate::{
    aside::{Asides, Sought},
    digest::Digester,
    drafts::Drafts,
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
    location::Location,
    lock::{Holder, Lock, Locks, guard},
    open::{Access, Options},
    scan,
    store::{
        Damage, Each, EachPiece, EachProblem, Erasure, Hit, Page, PartRead, Problem, ProgressHook, Query,
        Search, Selected, Size, StoragePlace, Store, StoredItem, Verified,
    },
    summary::Summary,
};
