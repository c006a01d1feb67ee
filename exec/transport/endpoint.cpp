#include "exec/transport/endpoint.hpp"
