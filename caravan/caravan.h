// Everything a user needs: tensors, gradients, models, programs, contexts, training; data and pictures.
#pragma once

#include <iostream>

#include "caravan/array/array.h"
#include "caravan/autodiff/grad.h"
#include "caravan/base/error.h"
#include "caravan/data/digits.h"
#include "caravan/data/loader.h"
#include "caravan/data/synthetic.h"
#include "caravan/generate/generator.h"
#include "caravan/nn/nn.h"
#include "caravan/plot/plot.h"
#include "caravan/plot/sheet.h"
#include "caravan/runtime/check_gradients.h"
#include "caravan/runtime/context.h"
#include "caravan/runtime/function.h"
#include "caravan/runtime/nonfinite.h"
#include "caravan/runtime/print.h"
#include "caravan/runtime/processes.h"
#include "caravan/runtime/trace.h"
#include "caravan/tensor/functions.h"
#include "caravan/tensor/program.h"
#include "caravan/tensor/tensor.h"
#include "caravan/train/checkpoint.h"
#include "caravan/train/optimizer.h"
#include "caravan/train/precision.h"
