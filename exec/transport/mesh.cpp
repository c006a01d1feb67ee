#include "exec/transport/mesh.hpp"
