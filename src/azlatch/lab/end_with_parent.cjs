// Loaded before a service: standard input closes when the process that started it is gone.
process.stdin.on("end", () => process.exit(0)).on("error", () => process.exit(0)).resume().unref();
