/* SPDX-License-Identifier: GPL-2.0-only */
/* Gives the pure policy headers linkage, for Rust: cc compiles this, bindgen reads it. */
#define VRQ_NATIVE
#include "preempt.h"
#include "wait.h"
