#pragma once

#include "cpu.h"

typedef struct caravan_mesh_step {
  caravan_step step;
  void (*library)(void* owner, int64_t kernel);
  void* owner;
} caravan_mesh_step;
static void caravan_library(const caravan_step* step, int64_t kernel) {
  const caravan_mesh_step* mesh = (const caravan_mesh_step*)step;
  mesh->library(mesh->owner, kernel);
}
