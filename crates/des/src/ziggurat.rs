//! Exponential random numbers, mostly without a logarithm: the ziggurat method (Marsaglia and Tsang, 2000).

use std::sync::LazyLock;

const LAYERS: usize = 256;
/// For 256 layers: the start of the lowest layer's tail, and the area of a layer.
const TAIL: f64 = 7.697_117_470_131_05;
const AREA: f64 = 0.003_949_659_822_581_557;

/// Layers of equal area that cover the region below e^-x, lowest first. Computed by the crate libm, because the
/// platforms' own functions differ in the last digit.
static LAYER: LazyLock<Layers> = LazyLock::new(Layers::new);

struct Layers {
    /// Width of each layer, of the lowest one without its tail. The last entry is 0.
    width: [f64; LAYERS + 1],
    /// e^-x at that width.
    height: [f64; LAYERS + 1],
}

impl Layers {
    /// The layers of the exponential distribution's ziggurat.
    fn new() -> Self {
        let mut width = [0.0; LAYERS + 1];
        width[0] = AREA * libm::exp(TAIL);
        width[1] = TAIL;
        for layer in 2..LAYERS {
            let below = width[layer - 1];
            width[layer] = -libm::log(AREA / below + libm::exp(-below));
        }
        Self { width, height: width.map(|width| libm::exp(-width)) }
    }
}

/// An exponential random number of mean 1. It takes 64 random bits, rarely more.
#[inline]
pub(crate) fn exponential(mut bits: impl FnMut() -> u64) -> f64 {
    let layers = &*LAYER;
    loop {
        let drawn = bits();
        let layer = (drawn % LAYERS as u64) as usize;
        let along = unit(drawn) * layers.width[layer];
        if along < layers.width[layer + 1] {
            return along;
        }
        if let Some(edge) = layers.edge(layer, along, unit(bits())) {
            return edge;
        }
    }
}

impl Layers {
    /// The rare case beyond the width of the layer above: in the tail, or accepted if below the curve.
    #[cold]
    fn edge(&self, layer: usize, along: f64, unit: f64) -> Option<f64> {
        if layer == 0 {
            return Some(TAIL - libm::log(1.0 - unit));
        }
        let (low, high) = (self.height[layer], self.height[layer + 1]);
        (low + unit * (high - low) < libm::exp(-along)).then_some(along)
    }
}

/// The upper 53 bits as a number in [0, 1).
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
