// The vocabulary of models: everything of caravan/nn.
#pragma once

#include "caravan/nn/activation.h"
#include "caravan/nn/attention.h"
#include "caravan/nn/conv.h"
#include "caravan/nn/decode.h"
#include "caravan/nn/embedding.h"
#include "caravan/nn/layer.h"
#include "caravan/nn/linear.h"
#include "caravan/nn/llama.h"
#include "caravan/nn/loss.h"
#include "caravan/nn/norm.h"
#include "caravan/nn/phase.h"
#include "caravan/nn/recurrent.h"
#include "caravan/nn/summary.h"
#include "caravan/nn/transformer.h"
