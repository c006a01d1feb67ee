# From a multiboot loader into 64 bits, with all vector registers and tiles of AMX to be used, and then to bare_main().

.section .multiboot, "a"
.align 4
.long 0x1badb002, 3, -(0x1badb002 + 3)

.section .text.start, "ax"
.code32
.globl _start
_start:
  cli
  # The first 4 GiB as they are, in pages of 2 MiB.
  mov $pages4, %edi
  lea 3 + pages3, %eax
  mov %eax, (%edi)
  mov $pages3, %edi
  lea 3 + pages2, %eax
  mov $4, %ecx
1: mov %eax, (%edi)
  add $4096, %eax
  add $8, %edi
  loop 1b
  mov $pages2, %edi
  mov $0x83, %eax
  mov $2048, %ecx
2: mov %eax, (%edi)
  add $0x200000, %eax
  add $8, %edi
  loop 2b
  mov %cr4, %eax
  or $0x40620, %eax             # PAE, OSFXSR, OSXMMEXCPT, OSXSAVE
  mov %eax, %cr4
  mov $pages4, %eax
  mov %eax, %cr3
  mov $0xc0000080, %ecx         # EFER: 64 bits
  rdmsr
  or $0x100, %eax
  wrmsr
  mov %cr0, %eax
  and $0xfffffffb, %eax         # no emulation of a coprocessor
  or $0x80000003, %eax          # paging
  mov %eax, %cr0
  lgdt gdt_register
  ljmp $8, $long_mode
.code64
long_mode:
  mov $16, %eax
  mov %eax, %ds
  mov %eax, %es
  mov %eax, %ss
  mov $stack_top, %rsp
  xor %ecx, %ecx
  mov $0x600e7, %eax            # XCR0: x87, SSE, AVX, AVX-512, tiles
  xor %edx, %edx
  xsetbv
  call bare_main
3: hlt
  jmp 3b

.align 8
gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
gdt_register:
  .word 23
  .quad gdt

.section .bss
.align 4096
pages4: .skip 4096
pages3: .skip 4096
pages2: .skip 16384
.skip 1048576
stack_top:

.section .note.GNU-stack, "", @progbits
