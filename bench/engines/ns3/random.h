/// The random streams of `des` (`crates/des/src/{random,ziggurat}.rs`), for engines that are not written in Rust.

#pragma once

#include <array>
#include <cmath>
#include <cstdint>

/// A permuted congruential generator (O'Neill, 2014): 128 bits of state, multiplied; XSL-RR output. With the finaliser of
/// SplitMix64 for seeds (Steele, Lea and Flood, 2014), Lemire's method for integers, and the ziggurat method for exponential
/// numbers (Marsaglia and Tsang, 2000).
class Stream
{
  public:
    Stream(uint64_t seed, uint64_t entity)
    {
        uint64_t low = mix(mix(seed) ^ entity);
        uint64_t high = mix(low ^ mix(entity) ^ rotate_right(seed, 32));
        m_state = (static_cast<unsigned __int128>(high) << 64 | low) | 1;
    }

    uint64_t bits()
    {
        m_state *= MULTIPLIER;
        auto high = uint64_t(m_state >> 64);
        return rotate_right(high ^ uint64_t(m_state), unsigned(high >> 58));
    }

    /// Uniform and below `end`, which is above 0.
    uint64_t below(uint64_t end)
    {
        while (true) {
            auto product = static_cast<unsigned __int128>(bits()) * end;
            auto low = uint64_t(product);
            if (low >= end || low >= -end % end) {
                return uint64_t(product >> 64);
            }
        }
    }

    /// Exponentially distributed, of mean 1.
    double exponential()
    {
        static const Layers layers;
        while (true) {
            uint64_t drawn = bits();
            auto layer = drawn % LAYERS;
            double along = unit(drawn) * layers.width[layer];
            if (along < layers.width[layer + 1]) {
                return along;
            }
            double other = unit(bits());
            if (layer == 0) {
                return TAIL - std::log(1.0 - other);
            }
            double low = layers.height[layer];
            if (low + other * (layers.height[layer + 1] - low) < std::exp(-along)) {
                return along;
            }
        }
    }

  private:
    static constexpr unsigned __int128 MULTIPLIER =
        static_cast<unsigned __int128>(0x2360ed051fc65da4) << 64 | 0x4385df649fccf645;
    static constexpr size_t LAYERS = 256;
    static constexpr double TAIL = 7.697'117'470'131'05;
    static constexpr double AREA = 0.003'949'659'822'581'557;

    /// Layers of equal area below e^-x, lowest first.
    struct Layers
    {
        std::array<double, LAYERS + 1> width{};
        std::array<double, LAYERS + 1> height{};

        Layers()
        {
            width[0] = AREA * std::exp(TAIL);
            width[1] = TAIL;
            for (size_t layer = 2; layer < LAYERS; ++layer) {
                double below = width[layer - 1];
                width[layer] = -std::log(AREA / below + std::exp(-below));
            }
            for (size_t layer = 0; layer <= LAYERS; ++layer) {
                height[layer] = std::exp(-width[layer]);
            }
        }
    };

    static uint64_t mix(uint64_t value)
    {
        value += 0x9e3779b97f4a7c15;
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
        value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
        return value ^ (value >> 31);
    }

    static uint64_t rotate_right(uint64_t value, unsigned by)
    {
        return value >> by | value << (-by & 63);
    }

    static double unit(uint64_t bits)
    {
        return double(bits >> 11) / double(uint64_t(1) << 53);
    }

    unsigned __int128 m_state;
};
