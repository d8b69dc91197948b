//! Where a program finds what a function was called with, and what it returned.

use crate::btf::KernelFunction;
use crate::function::Function;
use crate::hook_cost::HookKind;

/// How a program comes to run when a function is entered or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Code that the kernel writes for this function (fentry, fexit). The context has the parameters and then the result, 64 bits each.
    Trampoline,
    /// A probe (kprobe, kretprobe). The context has the processor's registers.
    Probe,
    /// Two tracepoints of the kernel, whose parameters are not read.
    Tracepoints(&'static str, &'static str),
}

impl Hook {
    pub(crate) fn kind(self) -> HookKind {
        match self {
            Self::Trampoline => HookKind::Trampoline,
            Self::Probe => HookKind::Probe,
            Self::Tracepoints(..) => HookKind::Tracepoint,
        }
    }
}

/// Offsets in a program's context; `None` for what the function lacks, or where it can't be found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Calling {
    pub(crate) device: Option<i16>,
    pub(crate) bytes: Option<i16>,
    pub(crate) parts: Option<i16>,
    /// Bytes that the function returns.
    pub(crate) result: Option<i16>,
}

impl Calling {
    /// What is found of a function that the kernel describes so.
    pub(crate) fn of(function: &Function, kernel: &KernelFunction, hook: Hook) -> Self {
        let parameter = |names| kernel.parameter(names).and_then(|place| parameter_at(place, hook));
        let result = match hook {
            Hook::Trampoline => Some(8 * kernel.parameters.len() as i16),
            Hook::Probe => RESULT_AT,
            Hook::Tracepoints(..) => None,
        };
        Self {
            device: parameter(function.device),
            bytes: parameter(function.bytes),
            parts: parameter(function.parts),
            result: result.filter(|_| function.returns_bytes || function.only_if_true),
        }
    }
}

fn parameter_at(place: usize, hook: Hook) -> Option<i16> {
    match hook {
        Hook::Trampoline => Some(8 * place as i16),
        Hook::Probe => PARAMETERS_AT.get(place).copied(),
        Hook::Tracepoints(..) => None,
    }
}

/// Offsets of the registers with a function's first parameters, in the order of `struct pt_regs` (x86: rdi, rsi, rdx, rcx, r8, r9).
#[cfg(target_arch = "x86_64")]
const PARAMETERS_AT: &[i16] = &[112, 104, 96, 88, 72, 64];
/// rax.
#[cfg(target_arch = "x86_64")]
const RESULT_AT: Option<i16> = Some(80);

/// x0 to x7 of `struct user_pt_regs`.
#[cfg(target_arch = "aarch64")]
const PARAMETERS_AT: &[i16] = &[0, 8, 16, 24, 32, 40, 48, 56];
#[cfg(target_arch = "aarch64")]
const RESULT_AT: Option<i16> = Some(0);

/// r3 to r10 of `struct user_pt_regs`.
#[cfg(target_arch = "powerpc64")]
const PARAMETERS_AT: &[i16] = &[24, 32, 40, 48, 56, 64, 72, 80];
#[cfg(target_arch = "powerpc64")]
const RESULT_AT: Option<i16> = Some(24);

/// Elsewhere only calls and times are counted.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "powerpc64")))]
const PARAMETERS_AT: &[i16] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "powerpc64")))]
const RESULT_AT: Option<i16> = None;
