//! Drives QEMU's educational device (`docs/specs/edu`) through VFIO or iommufd: real DMA through a real IOMMU, and what happens
//! beyond its mappings.
//!
//!     edu ADDRESS vfio|iommufd
//!
//! The device copies up to 4 KiB between memory and a buffer of its own at 0x40000, for which it is told both addresses. Its mask is
//! one of 28 bits.

use dma::vfio::{self, Device, Registers};
use dma::{BusAddress, Direction, DmaCounters, Domain, Limits, Mapper, MemoryAddress, Ram, Translation};
use std::error::Error;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MEMORY_BYTES: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// Less than the device's buffer: QEMU 7.2 takes its last byte for one too many.
const COPIED: u64 = 2048;
const MASK_BITS: u32 = 28;
/// Registers of the device.
const IDENTITY: u64 = 0x00;
const DMA_FROM: u64 = 0x80;
const DMA_TO: u64 = 0x88;
const DMA_BYTES: u64 = 0x90;
const DMA_COMMAND: u64 = 0x98;
const START: u64 = 1;
const TO_MEMORY: u64 = 2;
/// The device's own buffer.
const BUFFER: u64 = 0x40000;
const PATIENCE: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, adapter, way] = arguments.as_slice() else { return Err("edu ADDRESS vfio|iommufd".into()) };
    run(adapter, way)
}

/// Does all of it with the device at an address.
pub fn run(adapter: &str, way: &str) -> Result<()> {
    let memory = Arc::new(Ram::of_this_process(MEMORY_BYTES)?);
    let (translation, device) = vfio::open(adapter, way.parse()?, &[Arc::clone(&memory)])?;
    drive(translation, &device, &memory)?;
    println!("edu: {way}: all as expected");
    Ok(())
}

fn drive(translation: Arc<dyn Translation>, device: &Device, memory: &Ram) -> Result<()> {
    println!("edu: window {:?}", translation.window());
    let domain = Domain::builder(translation).build()?;
    let mapper = Mapper::translated(Limits::of_bits(MASK_BITS), domain).with_debug(true);
    device.enable()?;
    let registers = device.registers(0)?;
    let identity = registers.read_u32(IDENTITY)?;
    expect(identity & 0xffff == 0xed, "the device is the educational one")?;

    let mut counters = DmaCounters::default();
    let (source, target) = (memory.base(), MemoryAddress(memory.base().0 + PAGE));
    let pattern: Vec<u8> = (0..COPIED).map(|place| (place * 7 % 251) as u8).collect();
    memory.write(source, &pattern)?;
    let out = mapper.map(source, PAGE, Direction::ToDevice, &mut counters)?;
    let back = mapper.map(target, PAGE, Direction::FromDevice, &mut counters)?;
    expect(out.0 < 1 << MASK_BITS && back.0 < 1 << MASK_BITS, "addresses keep to the mask")?;

    copy(&registers, out.0, BUFFER, 0)?;
    copy(&registers, BUFFER, back.0, TO_MEMORY)?;
    expect(read(memory, target)? == pattern, "what went to the device came back")?;

    // What may only be read is not written: the IOMMU, not this program, sees to that.
    memory.write(source, &[0xaa; COPIED as usize])?;
    copy(&registers, BUFFER, out.0, TO_MEMORY)?;
    expect(read(memory, source)? == vec![0xaa; COPIED as usize], "memory mapped for reading is not written")?;

    // Nor is what is no longer mapped.
    mapper.unmap(back, PAGE, Direction::FromDevice, &mut counters)?;
    memory.write(target, &[0x55; COPIED as usize])?;
    copy(&registers, BUFFER, back.0, TO_MEMORY)?;
    expect(read(memory, target)? == vec![0x55; COPIED as usize], "memory that was unmapped is not written")?;

    // The same address leads to other memory now.
    let other = MemoryAddress(memory.base().0 + 2 * PAGE);
    let again = mapper.map(other, PAGE, Direction::FromDevice, &mut counters)?;
    copy(&registers, BUFFER, again.0, TO_MEMORY)?;
    expect(read(memory, other)? == pattern, "the device writes where its address leads now")?;
    expect(
        mapper.unmap(BusAddress(0x0dea_d000), PAGE, Direction::FromDevice, &mut counters).is_err(),
        "misuse is told",
    )?;
    mapper.unmap(again, PAGE, Direction::FromDevice, &mut counters)?;
    mapper.unmap(out, PAGE, Direction::ToDevice, &mut counters)?;
    mapper.close()?;
    println!("edu: {counters:?}");
    Ok(())
}

/// Has the device copy some of a page, and waits until it has.
fn copy(registers: &Registers, from: u64, to: u64, direction: u64) -> Result<()> {
    registers.write_u64(DMA_FROM, from)?;
    registers.write_u64(DMA_TO, to)?;
    registers.write_u64(DMA_BYTES, COPIED)?;
    registers.write_u64(DMA_COMMAND, START | direction)?;
    let began = Instant::now();
    while registers.read_u64(DMA_COMMAND)? & START != 0 {
        if began.elapsed() > PATIENCE {
            return Err("the device does not finish".into());
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn read(memory: &Ram, at: MemoryAddress) -> Result<Vec<u8>> {
    let mut bytes = vec![0; COPIED as usize];
    memory.read(at, &mut bytes)?;
    Ok(bytes)
}

fn expect(holds: bool, what: &str) -> Result<()> {
    println!("edu: {what}: {}", if holds { "yes" } else { "NO" });
    if holds { Ok(()) } else { Err(format!("not so: {what}").into()) }
}
