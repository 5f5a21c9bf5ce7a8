//! The imports that every kind of store needs: `use crate::backend::*;`.

pub(crate) use crate::{
    aside::{Asides, ErasedContent},
    digest::Digester,
    drafts::Drafts,
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
    location::Location,
    lock::{Holder, Lock, Locks, guard},
    open::{Access, Options},
    scan,
    store::{
        Damage, EachProblem, Erasure, Hit, OnItem, OnPiece, Page, PartRead, Problem, ProgressHook, Query,
        Search, Selection, Size, StoragePlace, Store, StoredItem, Verified,
    },
    summary::Summary,
};
