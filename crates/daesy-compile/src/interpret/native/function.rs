//! Elementary functions of one double as machine code calls them.

use crate::kernels::circular;
use crate::operation::{BinaryKernel, Opcode, OpcodeVisitor, TernaryKernel, UnaryKernel, visit};

/// Two doubles as the calling convention returns them, in the first two vector registers.
#[repr(C)]
struct Both {
    sin: f64,
    cos: f64,
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
unsafe extern "sysv64" fn unary<K: UnaryKernel>(a: f64) -> f64 {
    K::apply(a)
}

/// # Safety
/// As [`unary`].
#[target_feature(enable = "avx2,fma")]
unsafe extern "sysv64" fn binary<K: BinaryKernel>(a: f64, b: f64) -> f64 {
    K::apply(a, b)
}

/// # Safety
/// As [`unary`].
#[target_feature(enable = "avx2,fma")]
unsafe extern "sysv64" fn sin_cos(a: f64) -> Both {
    let both = circular::sin_cos(a);
    Both { sin: both.sin, cos: both.cos }
}

/// The address of the function for an operation on one or two doubles; none for others.
pub(super) fn address(opcode: Opcode) -> Option<usize> {
    let mut address = None;
    visit(opcode, Address(&mut address));
    address
}

struct Address<'r>(&'r mut Option<usize>);

impl OpcodeVisitor for Address<'_> {
    fn copy(self) {}
    fn unary<K: UnaryKernel>(self) {
        *self.0 = Some(unary::<K> as *const () as usize);
    }
    fn binary<K: BinaryKernel>(self) {
        *self.0 = Some(binary::<K> as *const () as usize);
    }
    fn ternary<K: TernaryKernel>(self) {}
    fn sin_cos(self) {
        *self.0 = Some(sin_cos as *const () as usize);
    }
    fn call(self) {}
}
