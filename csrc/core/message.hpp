// Builds the text of an exception from its parts, wrong values included.
#pragma once

#include <sstream>
#include <string>

namespace deepinfer {

template <typename... Parts>
std::string message(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

}  // namespace deepinfer
