//! iotoll: what toll does every I/O pay between a PCIe adapter and host memory?

fn main() {}
