"""Events as pages show them: frames, details, hosts."""
