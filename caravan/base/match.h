// An exhaustive match over a std::variant. After a new alternative is added, no match compiles until it has a case for
// it.
//
//     match(statement, [](const Store& s) { ... }, [](const For& f) { ... }, ...);
#pragma once

#include <utility>
#include <variant>

namespace caravan {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;

template <class Variant, class... Cases>
decltype(auto) match(Variant&& v, Cases&&... cases) {
  return std::visit(Match{std::forward<Cases>(cases)...}, std::forward<Variant>(v));
}

}  // namespace caravan
