//! Answers of `iotoll model run`: one page for each kind of machine that a model describes.

mod block;
mod engine;
mod flash_array;
mod infiniband;
mod memory_type;
mod network;
mod runs;
mod words;

pub use block::block_answer;
pub use engine::model_answer;
pub use flash_array::flash_array_answer;
pub use infiniband::adapters_answer;
pub use memory_type::memory_answer;
pub use network::hosts_answer;
