// kGlyphs: the printable ASCII characters as bitmaps, five pixels wide and seven high.
//
//   const bool ink = (kGlyphs[letter - ' '] >> (34 - (5 * row + column)) & 1) != 0;
//
// Drawn for this overlay, so that it needs neither a font file nor a library that renders text.
#pragma once

#include <array>
#include <cstdint>

namespace edgepipe::gstreamer {

inline constexpr int kGlyphWidth = 5;   // pixels
inline constexpr int kGlyphHeight = 7;  // the same

// Row by row from the highest of 35 bits, from ' ' to '~'.
inline constexpr std::array<std::uint64_t, 95> kGlyphs = {
    0x000000000, 0x108421004, 0x294000000, 0x295f57d4a, 0x11f4717c4, 0x674222173, 0x32544564d,
    0x108000000, 0x088842082, 0x208210888, 0x009575480, 0x0084f9080, 0x000001088, 0x0000f8000,
    0x000000084, 0x044222110, 0x3a33ae62e, 0x11842108e, 0x3a213221f, 0x3a213062e, 0x08ca97c42,
    0x7e1e0862e, 0x1910f462e, 0x7c2221108, 0x3a317462e, 0x3a317844c, 0x008401080, 0x008401088,
    0x088882082, 0x001f07c00, 0x208208888, 0x3a2111004, 0x3a37ada0e, 0x11518fe31, 0x7a31f463e,
    0x3a308422e, 0x72518c65c, 0x7e10f421f, 0x7e10f4210, 0x3a30bc62f, 0x4631fc631, 0x38842108e,
    0x1c4210a4c, 0x4654c5251, 0x42108421f, 0x4775ac631, 0x4739ace71, 0x3a318c62e, 0x7a31f4210,
    0x3a318d64d, 0x7a31f5251, 0x3e107043e, 0x7c8421084, 0x46318c62e, 0x46318a944, 0x4631ad771,
    0x462a22a31, 0x462a21084, 0x7c222221f, 0x39084210e, 0x410820841, 0x38421084e, 0x115100000,
    0x00000001f, 0x208000000, 0x000e0be2f, 0x421e8c63e, 0x000f8420f, 0x042f8c62f, 0x000e8fe0f,
    0x1908f2108, 0x000f8bc2e, 0x421e8c631, 0x100c2108e, 0x080610a4c, 0x4212a6292, 0x30842108e,
    0x001aad6b5, 0x001e8c631, 0x000e8c62e, 0x001e8fa10, 0x000f8bc21, 0x0016cc210, 0x000f8383e,
    0x211e42106, 0x00118c62f, 0x00118a944, 0x0011ad6aa, 0x001151151, 0x00118bc2e, 0x001f1111f,
    0x088441082, 0x108421084, 0x208411088, 0x0009ac800,
};

}  // namespace edgepipe::gstreamer
