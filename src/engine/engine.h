/**
 * What higher rooms see of the engine: the public interface, nothing more.
 */
#ifndef GY_ENGINE_ENGINE_H
#define GY_ENGINE_ENGINE_H

#include <gyre/engine.h>

#endif
