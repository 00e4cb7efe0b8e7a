// Pictures of language models.
#pragma once

#include "apps/recipes/language.h"

namespace caravan::app {

std::vector<std::string> letter_names(
    const data::Tokenizer& tokenizer);  // as they can be shown: a blank is "␣", a line end "↵"

// The vectors of an embedding on the plane of their two largest principal components.
Picture embedding_picture(const Context& ctx, const nn::Embedding& embedding, const data::Tokenizer& tokenizer);

// What a hidden layer gives for a thousand examples of the train part, and what gradients it receives, at the first
// step and now. `hidden` is that layer in a training phase, `next` maps it to logits.
std::vector<Picture> hidden_pictures(const Context& ctx, const TextData& data,
                                     const std::function<Tensor(const Tensor& ids)>& hidden,
                                     const std::function<Tensor(const Tensor& hidden)>& next);

// Which letters each head of a GPT's last block looks at, for the first `most` tokens of this text.
std::vector<Picture> attention_pictures(const Context& ctx, const nn::Gpt& gpt, const data::Tokenizer& tokenizer,
                                        const std::string& text, size_t most);

// Adds pictures to those that the findings have.
void add_pictures(Findings& found, std::function<std::vector<Picture>()> more);

}  // namespace caravan::app
